"""Edits change the lines of a Change and no other; the reason stands beside the key; whoever shares an anchor keeps it."""

from __future__ import annotations

import difflib
import json
from typing import Any

import pytest

from headroom.contracts import Change, say
from headroom.job import JobError, edit, read_job
from headroom.report.wording import words

REASON = say("job.error.is_process")
SPOKEN = words(REASON)
NOTE = f"# {SPOKEN}"
HEAD = "job: extension\nconfig:\n  name: x\n  process:\n  - type: sd_trainer\n"


def changes(*pairs: tuple[str, Any]) -> list[Change]:
    return [Change("batch_size", path, None, new, REASON, REASON, REASON) for path, new in pairs]


def diff(text: str, *pairs: tuple[str, Any], comments: Any = None) -> str:
    """The lines that differ, with - and +, after an edit."""
    edited = edit(read_job(text), changes(*pairs), comments).text
    lines = difflib.unified_diff(text.splitlines(), edited.splitlines(), n=0, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@"))).replace(NOTE, "# why")


def edited(body: str, *pairs: tuple[str, Any], comments: Any = None) -> str:
    """What an edit makes of a process, given without its first line."""
    text = edit(read_job(HEAD + body), changes(*pairs), comments).text
    assert text.startswith(HEAD)
    return text[len(HEAD) :].replace(NOTE, "# why")


# -- values


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((1, "1"), (-2, "-2"), (0.5, "0.5"), (1e-4, "0.0001"), (1e-05, "1e-05"), (True, "true"), (False, "false")),
        *((None, "null"), (float("inf"), ".inf"), ("bf16", "bf16"), ("cuda:0", "cuda:0"), ("a b", "a b")),
        *(("1e-4", '"1e-4"'), ("yes", '"yes"'), ("512", '"512"'), ("null", '"null"'), ("", '""'), ("1:30", '"1:30"')),
        *(("a: b", '"a: b"'), ("a #b", '"a #b"'), ("- a", '"- a"'), ("&a", '"&a"'), ("two\nlines", '"two\\nlines"')),
        *(
            ("2024-01-01", '"2024-01-01"'),
            ("=", '"="'),
            ("<<", '"<<"'),
            ("\x85", '"\\u0085"'),
            ("猫", "猫"),
            (" a", '" a"'),
        ),
        *(
            ([512, 768], "[512, 768]"),
            ([], "[]"),
            (["yes", "a"], '["yes", a]'),
            ({"use_ema": False}, "{use_ema: false}"),
        ),
    ],
)
def test_a_value_is_written_so_that_it_is_read_back_with_its_type(value: Any, text: str) -> None:
    assert edited("    key: old\n", ("key", value)) == f"    key: {text}\n"


def test_a_text_keeps_the_quotes_it_had() -> None:
    assert edited("    key: 'old'\n", ("key", "it's")) == "    key: 'it''s'\n"
    assert edited('    key: "old"\n', ("key", "new")) == '    key: "new"\n'
    assert edited("    key: 'old'\n", ("key", 4)) == "    key: 4\n"


def test_everything_around_a_value_stays() -> None:
    text = (
        "# 顶\n"
        + HEAD
        + "    unknown:   {a: [1,2 ], 'b': \"c\" }\n    train:  # 训练\n\n      batch_size:   4  # 批\n      lr: 1e-4\n"
    )
    assert diff(text, ("train.batch_size", 1)) == "-      batch_size:   4  # 批\n+      batch_size:   1  # 批"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    key: 4 # why not\n", "    key: 1 # why not\n"),
        ("    key:\n", "    key: 1\n"),
        ("    key: # nothing\n", "    key: 1 # nothing\n"),
        ("    key: ~\n", "    key: 1\n"),
        ("    key: !!str 4\n", "    key: 1\n"),
        ("    key: |\n      a\n      b\n    z: 0\n", "    key: 1\n    z: 0\n"),
        ("    key: >+ # folded\n      a\n\n    z: 0\n", "    key: 1\n\n    z: 0\n"),
        ("    key: a\n      b\n    z: 0\n", "    key: 1\n    z: 0\n"),
        ("    key:\n      # first\n      a: 1\n      b: 2\n\n    z: 0\n", "    key: 1\n\n    z: 0\n"),
        ("    key: # list\n    - 1\n    - 2\n    z: 0\n", "    key: 1 # list\n    z: 0\n"),
        ("    key: {a: 1,\n      b: 2}\n", "    key: 1\n"),
        ("    ? key\n    : 4\n", "    ? key\n    : 1\n"),
        ("    key: 3\n    key: 4\n", "    key: 3\n    key: 1\n"),
    ],
)
def test_a_value_of_any_style_is_replaced(before: str, after: str) -> None:
    assert edited(before, ("key", 1)) == after


def test_what_cannot_be_changed_in_the_text_is_refused_rather_than_changed_wrongly() -> None:
    with pytest.raises(JobError, match="Make the change by hand"):
        edited("    ? key\n", ("key", 1))


# -- lists


@pytest.mark.parametrize(
    ("before", "new", "after"),
    [
        ("[512, 768, 1024]", [512, 768], "[512, 768]"),
        ("[ 512,768 , 1024 ]", [512, 768], "[ 512,768 ]"),
        ("[512, 768, 1024]", [768], "[768]"),
        ("[512, 768, 1024]", [512, 1024], "[512, 1024]"),
        ("[512, 768, 1024,]", [512], "[512,]"),
        ("[512, 0x300, 1024]", [512, 768], "[512, 0x300]"),
        ("[512, 1024]", [512, 896], "[512, 896]"),
        ("[512]", [512, 768], "[512, 768]"),
        ("[512, 1024]", 512, "512"),
        ("1024", [512, 768], "[512, 768]"),
        ("[512, 1024]", [], "[]"),
        ("[\n      512, # small\n      1024, # big\n    ]", [512], "[\n      512, # small\n    ]"),
        ("[\n      512,\n      768,\n      1024\n    ]", [512, 1024], "[\n      512,\n      1024\n    ]"),
        ("[\n      512,\n      768,\n      1024]", [768], "[\n      768]"),
        ("[\n      512\n      , 768\n      , 1024]", [768], "[\n      768]"),
    ],
)
def test_a_list_in_brackets_keeps_its_style(before: str, new: Any, after: str) -> None:
    assert edited(f"    key: {before}\n", ("key", new)) == f"    key: {after}\n"


@pytest.mark.parametrize(
    ("before", "new", "after"),
    [
        ("\n    - 512\n    - 768 # mid\n    - 1024 # big\n", [512, 768], "\n    - 512\n    - 768 # mid\n"),
        ("\n      - 512\n\n      # small\n      - 768\n", [768], "\n\n      # small\n      - 768\n"),
        ("\n    - 512\n    - 1024 # big\n", [512, 896], "\n    - 512\n    - 896 # big\n"),
        ("\n    - 512\n    - 1024\n", [], " []\n"),
        ("\n    - 512\n    - 1024\n", [1, 2, 3], " [1, 2, 3]\n"),
        ("\n    - 512\n    - 1024\n", 512, " 512\n"),
    ],
)
def test_a_list_of_lines_loses_just_the_line(before: str, new: Any, after: str) -> None:
    assert edited(f"    key:{before}", ("key", new)) == f"    key:{after}"
    assert edited(f"    key:{before}    z: 0\n", ("key", new)) == f"    key:{after}    z: 0\n"


def test_one_entry_of_a_list_is_reached_by_its_number() -> None:
    assert edited("    key: [1, [2, 3]]\n", ("key[1][0]", 9)) == "    key: [1, [9, 3]]\n"
    assert edited("    key:\n    - a: 1\n    -\n", ("key[1]", 9)) == "    key:\n    - a: 1\n    - 9\n"


# -- keys that are not there


def test_a_key_is_added_after_its_siblings_and_before_what_follows() -> None:
    text = "    train:\n      batch_size: 4  # batch\n      # lr: 1\n\n    # the model\n    model:\n      arch: flux\n"
    added = edited(text, ("train.steps", 9), ("model.low_vram", True))
    assert added == (
        "    train:\n      batch_size: 4  # batch\n      steps: 9\n      # lr: 1\n\n    # the model\n"
        "    model:\n      arch: flux\n      low_vram: true\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    train: {}\n", "    train: {steps: 9}\n"),
        ("    train: { }\n", "    train: {steps: 9}\n"),
        ("    train: {a: 1}\n", "    train: {a: 1, steps: 9}\n"),
        ("    train: {a: 1,}\n", "    train: {a: 1, steps: 9,}\n"),
        ("    train: {a: 1,b}\n", "    train: {a: 1,b, steps: 9}\n"),
        ('    train: {"a": 1, "b": 2}\n', '    train: {"a": 1, "b": 2, "steps": 9}\n'),
        ("    train: {a: 1,\n      b: 2 # c\n    }\n", "    train: {a: 1,\n      b: 2,\n      steps: 9 # c\n    }\n"),
        ("    train:\n", "    train:\n      steps: 9\n"),
        ("    train:  # later\n    z: 0\n", "    train:  # later\n      steps: 9\n    z: 0\n"),
        ("    train: null\n", "    train: {steps: 9}\n"),
        ("    train: ~ # c\n", "    train: {steps: 9} # c\n"),
        ("    z: 0\n", "    z: 0\n    train:\n      steps: 9\n"),
        ("    z: 0", "    z: 0\n    train:\n      steps: 9"),
        ("    train:\n        a: 1\n", "    train:\n        a: 1\n        steps: 9\n"),
        (
            "    train:\n      a: |\n        text\n\n    z: 0\n",
            "    train:\n      a: |\n        text\n      steps: 9\n\n    z: 0\n",
        ),
        (
            "    train:\n      a: |+\n        text\n\n    z: 0\n",
            "    train:\n      a: |+\n        text\n\n      steps: 9\n    z: 0\n",
        ),
        ("    train:\n      a: |\n        text", "    train:\n      steps: 9\n      a: |\n        text"),
        ("    train:\n      a:\n      - 1\n      -\n", "    train:\n      a:\n      - 1\n      -\n      steps: 9\n"),
        ('    train:\n      a: "b\n        c"\n', '    train:\n      a: "b\n        c"\n      steps: 9\n'),
    ],
)
def test_a_key_is_added_in_the_style_of_its_place(before: str, after: str) -> None:
    assert edited(before, ("train.steps", 9)) == after


def test_parents_that_are_absent_are_made_once_for_all() -> None:
    body = edited(
        "    z: 0\n", ("train.ema_config.use_ema", False), ("train.steps", 9), ("train.ema_config.ema_decay", 0.5)
    )
    assert body == (
        "    z: 0\n    train:\n      ema_config:\n        use_ema: false\n        ema_decay: 0.5\n      steps: 9\n"
    )


def test_changes_at_one_place_and_in_any_order_do_not_disturb_each_other() -> None:
    body = "    train: {a: 1, b: 2}\n    sample:\n      width: 1024\n"
    pairs = [("save.dtype", "bf16"), ("sample.height", 512), ("sample.width", 256), ("train.b", 3), ("train.c", 4)]
    wanted = "    train: {a: 1, b: 3, c: 4}\n    sample:\n      width: 256\n      height: 512\n    save:\n      dtype: bf16\n"
    for turn in range(len(pairs)):
        assert edited(body, *pairs[turn:], *pairs[:turn]) == wanted


def test_a_path_with_a_star_reaches_every_entry_and_a_prefix_another_process() -> None:
    body = "    datasets:\n    - a: 1\n    - b: 2\n  - type: sd_trainer\n    train: {steps: 1}\n"
    done = edited(body, ("datasets[*].num_workers", 0), ("process[1].train.steps", 2))
    assert done == (
        "    datasets:\n    - a: 1\n      num_workers: 0\n    - b: 2\n      num_workers: 0\n"
        "  - type: sd_trainer\n    train: {steps: 2}\n"
    )


@pytest.mark.parametrize(
    "path", ["datasets[2].a", "train.steps.x", "train[0]", "none[0].x", "datasets.x", "none[*].x", "process[1].train.x"]
)
def test_a_path_that_leads_nowhere_is_an_error_that_names_it(path: str) -> None:
    with pytest.raises(JobError) as caught:
        edited("    train: {steps: 1}\n    datasets: [{}, {}]\n", (path, 1))
    assert path in str(caught.value)


@pytest.mark.parametrize("path", ["process[0]", "", "train..x"])
def test_a_path_that_names_no_key_is_an_error(path: str) -> None:
    with pytest.raises(JobError):
        edited("    train: {}\n", (path, 1))


# -- aliases, anchors and merge keys


SHARED = """\
    base: &base
      batch_size: 4
      ema_config: {use_ema: true, ema_decay: 0.99}
    train:
      <<: *base
      lr: 1e-4
    datasets:
    - &ds
      folder_path: "/a" # path
      resolution: &sizes [512, 1024]
    - *ds
    - resolution: *sizes
"""


def test_a_value_behind_a_merge_key_is_written_out_at_its_own_place() -> None:
    assert diff(HEAD + SHARED, ("train.batch_size", 1)) == "+      batch_size: 1"


def test_below_a_merge_key_the_inherited_mapping_is_written_out() -> None:
    line = "+      ema_config: {use_ema: false, ema_decay: 0.99}"
    assert diff(HEAD + SHARED, ("train.ema_config.use_ema", False)) == line


def test_a_value_behind_an_alias_is_written_out_at_its_own_place() -> None:
    assert diff(HEAD + SHARED, ("datasets[2].resolution", [512])) == (
        "-    - resolution: *sizes\n+    - resolution: [512]"
    )
    assert diff(HEAD + SHARED, ("datasets[1].resolution", [512])) == "-    - *ds\n+    - {<<: *ds, resolution: [512]}"
    assert diff(HEAD + SHARED, ("datasets[1].num_workers", 0)) == "-    - *ds\n+    - {<<: *ds, num_workers: 0}"


def test_whoever_shares_a_changed_value_keeps_what_it_had() -> None:
    assert diff(HEAD + SHARED, ("base.batch_size", 1)) == (
        "-      batch_size: 4\n+      batch_size: 1\n"
        "-      <<: *base\n+      <<: {batch_size: 4, ema_config: {use_ema: true, ema_decay: 0.99}}"
    )
    assert diff(HEAD + SHARED, ("datasets[0].resolution", [512])) == (
        "-      resolution: &sizes [512, 1024]\n-    - *ds\n-    - resolution: *sizes\n"
        '+      resolution: &sizes [512]\n+    - {folder_path: "/a", resolution: [512, 1024]}\n'
        "+    - resolution: [512, 1024]"
    )


def test_an_anchor_that_goes_away_leaves_its_values_behind() -> None:
    gone = diff(HEAD + SHARED, ("datasets[0].resolution", 512))
    assert "+      resolution: 512\n" in gone
    assert "+    - resolution: [512, 1024]" in gone
    assert diff(HEAD + "    a: &x 1\n    b: *x\n", ("a", 2)) == "-    a: &x 1\n-    b: *x\n+    a: 2\n+    b: 1"


def test_all_entries_that_share_a_list_can_be_changed_at_once() -> None:
    job = edit(read_job(HEAD + SHARED), changes(("datasets[*].resolution", [512])))
    assert [entry["resolution"] for entry in job.data["config"]["process"][0]["datasets"]] == [[512]] * 3
    assert read_job(job.text).data == job.data


# -- comments


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    train: {steps: 1}\n", "    train: {steps: 9}  # why\n"),
        ("    train:\n      steps: 1\n", "    train:\n      steps: 9  # why\n"),
        ("    train:\n      steps: 1 # mine\n", "    train:\n      # why\n      steps: 9 # mine\n"),
        ("    train:\n      a: 1\n", "    train:\n      a: 1\n      steps: 9  # why\n"),
        ("    train:\n", "    train:\n      steps: 9  # why\n"),
        ("    a: 1\n", "    a: 1\n    train:\n      steps: 9  # why\n"),
        ("    train: {steps: 1, a: 2}\n", "    # why\n    train: {steps: 9, a: 2}\n"),
        ("    train: {a: [1, {b: 2}]}\n", "    train: {a: [1, {b: 2}], steps: 9}  # why\n"),
        (
            "    train: {\n      steps: 1,\n      a: 2\n    }\n",
            "    train: {\n      steps: 9,  # why\n      a: 2\n    }\n",
        ),
        ('    train: {a: "x\n      y", steps: 1, b: 2}\n', '    # why\n    train: {a: "x\n      y", steps: 9, b: 2}\n'),
        ("    train: {a: x\n      y, steps: 1, b: 2}\n", "    # why\n    train: {a: x\n      y, steps: 9, b: 2}\n"),
        (
            "    z: |\n      text\n    train: {steps: 1} # c\n",
            "    z: |\n      text\n    # why\n    train: {steps: 9} # c\n",
        ),
    ],
)
def test_the_reason_stands_beside_the_key_or_above_it(before: str, after: str) -> None:
    assert edited(before, ("train.steps", 9), comments="en") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    key:\n    - 512\n    - 1024\n", "    key:  # why\n    - 512\n"),
        ("    key: # sizes\n    - 512\n    - 1024 # big\n", "    # why\n    key: # sizes\n    - 512\n"),
        ("    key: [512, 1024]\n", "    key: [512]  # why\n"),
        ("    key: [\n      512, # c\n      1024\n    ]\n", "    key: [\n      512, # c\n    ]  # why\n"),
    ],
)
def test_a_shorter_list_has_its_reason_at_the_key(before: str, after: str) -> None:
    assert edited(before, ("key", [512]), comments="en") == after


def test_reasons_are_in_the_language_asked_for_and_absent_when_not() -> None:
    chinese = edit(read_job(HEAD + "    a: 1\n"), changes(("a", 2)), "zh").text
    assert f"    a: 2  # {words(REASON, 'zh')}\n" in chinese
    assert "#" not in edit(read_job(HEAD + "    a: 1\n"), changes(("a", 2)), None).text


def test_a_reason_is_one_line_and_names_no_placeholder() -> None:
    reason = say("job.error.value", value="two\nlines\u2028${HF_TOKEN}", type="int")
    change = Change("x", "a", 1, 2, reason, reason, reason)
    text = edit(read_job(HEAD + "    a: 1\n"), [change], "en").text
    assert text.count("\n") == (HEAD + "    a: 1\n").count("\n")
    assert "${" not in text
    assert "two lines $ {HF_TOKEN}" in text


def test_two_reasons_may_share_a_line() -> None:
    body = edited("    a: {b: 1, c: 2}\n", ("a.c", 3), ("a.d", 4), comments="en")
    assert body == "    a: {b: 1, c: 3, d: 4}  # why  # why\n"


# -- line endings, marks, wide characters


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_windows_line_endings_and_a_byte_order_mark_stay(mark: str) -> None:
    text = mark + (HEAD + "    表情: 😀\n    train:\n      steps: 1\n      a: [1, 2]\n").replace("\n", "\r\n")
    done = edit(read_job(text), changes(("train.steps", 2), ("train.b", 3), ("train.a", [1])), "en").text
    assert done.replace("\r\n", "").count("\n") == done.replace("\r\n", "").count("\r") == 0
    assert done.replace(f"  {NOTE}", "").replace("\r\n", "\n") == mark + (
        HEAD + "    表情: 😀\n    train:\n      steps: 2\n      a: [1]\n      b: 3\n"
    )


def test_a_mark_before_the_first_key_does_not_shift_columns() -> None:
    text = '\ufeff{job: extension, config: {name: x, process: [{type: t, "猫😀": 1, b: 2}]}}'
    assert edit(read_job(text), changes(("b", 3))).text == text.replace("b: 2", "b: 3")


# -- JSON


def as_json(indent: Any = 2, **process: Any) -> str:
    data = {"job": "extension", "config": {"name": "x", "process": [{"type": "sd_trainer", **process}]}}
    return json.dumps(data, indent=indent, ensure_ascii=False)


def test_json_is_edited_in_its_own_spacing_and_gets_no_comments() -> None:
    text = as_json(train={"batch_size": 4, "lr": 1e-05}, datasets=[{"resolution": [512, 768, 1024]}], model={})
    done = diff(
        text,
        *(("train.batch_size", 1), ("train.steps", 9), ("datasets[0].resolution", [512, 768])),
        *(("model.low_vram", True), ("save.dtype", "bf16")),
        comments="en",
    )
    assert done == "\n".join(
        [
            '-          "batch_size": 4,',
            '-          "lr": 1e-05',
            '+          "batch_size": 1,',
            '+          "lr": 1e-05,',
            '+          "steps": 9',
            "-              768,",
            "-              1024",
            "+              768",
            '-        "model": {}',
            '+        "model": {"low_vram": true},',
            '+        "save": {"dtype": "bf16"}',
        ]
    )


def test_json_on_one_line_with_tabs_and_repeated_keys() -> None:
    text = as_json(None, a=1, b=[1, 2]).replace('"a": 1', '"a":\t0, "a" :1')
    done = edit(read_job(text), changes(("a", 2), ("b", [2]), ("c", "é\n"))).text
    assert done == text.replace('"a" :1, "b": [1, 2]', '"a" :2, "b": [2], "c": "é\\n"')


def test_json_escapes_and_wide_characters_do_not_shift_places() -> None:
    text = as_json(None, text="😀\n\"'\\/", a=1).replace("😀", "\\ud83d\\ude00😀")
    assert edit(read_job(text), changes(("a", 2))).text == text.replace('"a": 1', '"a": 2')


def test_null_in_json_becomes_a_mapping() -> None:
    text = as_json(None, train=None)
    assert '"train": {"steps": 9}' in edit(read_job(text), changes(("train.steps", 9))).text


# -- the whole


def test_no_changes_no_difference() -> None:
    job = read_job(HEAD + SHARED)
    assert edit(job, []) == job


def test_the_result_is_a_job_like_the_first_and_the_first_is_untouched() -> None:
    job = read_job(HEAD + "    a: [1, 2]\n", "mine.yaml")
    done = edit(job, changes(("a", [2]), ("b.c", {"d": [1]})))
    assert (done.origin, done.syntax) == ("mine.yaml", "yaml")
    assert done.data["config"]["process"][0] == {"type": "sd_trainer", "a": [2], "b": {"c": {"d": [1]}}}
    assert job.data["config"]["process"][0] == {"type": "sd_trainer", "a": [1, 2]}
    assert read_job(done.text).data == done.data


def test_the_order_of_changes_to_one_key_counts() -> None:
    assert edited("    a: 1\n", ("a", 2), ("a", 3)) == "    a: 3\n"
    assert edited("    z: 0\n", ("a", {"b": 1}), ("a.c", 2)) == "    z: 0\n    a:\n      b: 1\n      c: 2\n"
