"""Read a log once, front to back, and keep what matters: messages, stage marks, tracebacks, bars, the printed job."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from .bars import BAR, Bar, label_before, read_bar, skip_repaints
from .catalogue import Catalogue, Message, catalogue
from .findings import BarTrack, Finding, LogReading, StageMark, Traceback
from .log_text import chunks, find_log
from .sizes import join, read_sizes

_SENTENCE_LINES = 14
_SENTENCE_BYTES = 4096
_LONGEST_LINE = 65536
_WORTH_COMPILING = 65536
_REMEMBERED = 2048
_ANY_LINE = re.compile(rb"[^\r\n]+")
_LONGEST_EVIDENCE = 600
_KEPT = 64  # findings of one message, marks and tracebacks are kept from both ends


def read_log(source: str | bytes | Path) -> LogReading:
    """Read a log: its text, its bytes, its file, or the folder of AI Toolkit's UI that holds ``log.txt``.

    Reads every byte once in constant memory. A short log in which nothing was found is read once more with its line
    breaks taken out, in case a page or a terminal wrapped its messages in the middle of a word.

    Raises OSError where the file cannot be read.
    """
    if isinstance(source, Path):
        source = find_log(source)
    reading = _Reader().read(chunks(source))
    if not reading.findings and reading.size < 4 * _LONGEST_LINE and reading.lines > 1:
        text = b"".join(chunks(source))
        unwrapped = _Reader().read(iter([re.sub(rb"\r?\n", b"", text)]))
        if unwrapped.findings:
            starts = [m.end() for m in re.finditer(rb"\n", text)]
            reading.findings = [_at_its_line(each, text, starts) for each in unwrapped.findings]
            reading.counts = unwrapped.counts
    return reading


def _at_its_line(finding: Finding, text: bytes, starts: list[int]) -> Finding:
    """A finding of the unwrapped text, set back to the line of the log where its first word stands."""
    word = finding.text.encode()[:12]
    place = max(text.find(word), 0)
    line = 1 + sum(start <= place for start in starts)
    return Finding(finding.message, finding.says, place, line, finding.text, ((line, finding.text),), finding.sizes)


class _Reader:
    def __init__(self) -> None:
        self.known: Catalogue = catalogue()
        self.reading = LogReading()
        self.base = 0  # bytes of the chunks already read
        self.line = 1  # line number at `counted`
        self.counted = 0
        self.kept: dict[str, list[Finding]] = {}
        self.seen: dict[str, list[Message]] = {}
        self.sentence_until: dict[str, int] = {}
        self.last_bar_at = -1

    def read(self, pieces: Iterator[bytes]) -> LogReading:
        # One chunk ahead, so that a sentence that goes on in the next chunk is read whole.
        ahead = next(pieces, None)
        text, skip = b"", 0
        while ahead is not None:
            piece, ahead = ahead, next(pieces, None)
            text = text[skip:] + piece
            self.base += skip
            self.counted -= skip
            if ahead is None:
                stop = len(text)
            else:
                # Whole lines only; where one goes on for longer than any message, anywhere.
                limit = max(0, len(text) - _SENTENCE_BYTES)
                stop = max(text.rfind(b"\n", 0, limit), text.rfind(b"\r", 0, limit)) + 1
                stop = stop or (limit if limit > 4 * _LONGEST_LINE else 0)
            self._scan(text, stop)
            self._line_at(text, stop)
            skip = stop
        self._finish(text)
        return self.reading

    def _finish(self, text: bytes) -> None:
        reading = self.reading
        self.base += len(text)
        reading.size = self.base
        tail = text.rstrip()
        reading.lines = self._line_at(text, len(text)) if text else self.line
        last = re.split(rb"[\r\n]", tail[-_LONGEST_LINE:])[-1].decode("utf-8", "replace")
        reading.last_line = (self._line_before_end(text, tail), last[-_LONGEST_EVIDENCE:])
        reading.findings = sorted((each for kept in self.kept.values() for each in kept), key=lambda each: each.at)
        reading.marks.sort(key=lambda mark: mark.at)

    def _line_before_end(self, text: bytes, tail: bytes) -> int:
        return max(1, self.reading.lines - text.count(b"\n", len(tail)))

    def _line_at(self, text: bytes, place: int) -> int:
        if place >= self.counted:
            self.line += text.count(b"\n", self.counted, place)
            self.counted = place
            return self.line
        return self.line - text.count(b"\n", place, self.counted)

    def _scan(self, text: bytes, stop: int) -> None:
        # One expression finds the lines worth a look; a short log is read line by line before it would be compiled.
        look = self.known.worth_a_look if stop > _WORTH_COMPILING else _ANY_LINE
        low = text.lower()
        place = 0
        while (hit := look.search(low, place, stop)) is not None:
            start = max(text.rfind(b"\n", 0, hit.start()), text.rfind(b"\r", 0, hit.start()), place - 1) + 1
            ends = [e for e in (text.find(b"\n", hit.end()), text.find(b"\r", hit.end())) if e >= 0]
            end = min(min(ends, default=len(text)), start + _LONGEST_LINE)
            end = max(end, hit.end())
            place = self._read_line(text, start, end)
            if place <= hit.start():
                place = hit.end()

    # ------------------------------------------------------------------ one line

    def _read_line(self, text: bytes, start: int, end: int) -> int:
        line = text[start:end]
        spans: list[tuple[int, int]] = []
        done, after = 0, end
        if b"%" in line:
            for match in BAR.finditer(line):
                label = label_before(line, done, match.start())
                spans.append((done, match.start()))
                done = match.end()
                bar = read_bar(label, match)
                self._bar(bar, text, start + match.start())
                skipped = skip_repaints(text, label, start + done)
                if skipped > start + done:
                    self._repaints(text, label, start + done, skipped)
                if skipped > end:
                    after = skipped
                    break
                if b"nan" in match["state"].lower():
                    spans.append((match.start(), match.end()))
        spans.append((done, len(line)))
        for left, right in spans:
            if right > left and not line[left:right].isspace():
                self._read_text(text, start + left, start + right)
        return after

    def _bar(self, bar: Bar, text: bytes, place: int) -> None:
        at = self.base + place
        self.last_bar_at = at
        tracks = self.reading.bars
        recent = reversed(tracks[-6:])
        track = next((each for each in recent if (each.last.label, each.last.total) == (bar.label, bar.total)), None)
        if track is None:
            line = self._line_at(text, place)
            track = BarTrack(bar, bar, at, at, line, line)
            tracks.append(track)
            if len(tracks) > 2 * _KEPT:
                del tracks[_KEPT]
        else:
            track.last, track.end, track.repaints = bar, at, track.repaints + 1
            track.end_line = self._line_at(text, place)
        track.note(bar)

    def _repaints(self, text: bytes, label: bytes, start: int, end: int) -> None:
        """The last repaint of a run, and one that prints NaN."""
        run = text[start:end]
        last = run.rfind(b"%|")
        digits = len(run[:last]) - len(run[:last].rstrip(b"0123456789"))
        match = BAR.match(run, last - digits)
        if match:
            self._bar(read_bar(label, match), text, start + last)
        nan = run.lower().find(b"nan")
        if nan >= 0:
            left = max(run.rfind(b"\n", 0, nan), run.rfind(b"\r", 0, nan)) + 1
            ends = [e for e in (run.find(b"\n", nan), run.find(b"\r", nan)) if e >= 0]
            self._read_text(text, start + left, start + min(ends, default=len(run)))

    def _read_text(self, text: bytes, start: int, end: int) -> None:
        lines = self.known.lines
        line = lines.prefix.sub("", text[start:end].decode("utf-8", "replace"))
        low = line.lower()
        at = self.base + start
        number = self._line_at(text, start)
        sentence: list[tuple[int, str]] | None = None
        warning = bool(lines.warning.match(line))
        for message in self._candidates(low):
            if (warning and not message.in_warnings) or self.sentence_until.get(message.id, -1) >= at:
                continue
            if message.in_sentence:
                sentence = sentence or self._sentence(text, start, end, number)
                self._sentence_finding(message, at, sentence)
            elif message.proved_by(line):
                self._keep(message, at, ((number, line.strip()[:_LONGEST_EVIDENCE]),), {})
        self._stage_marks(line, at, number)
        if lines.traceback in line:
            self._traceback(at, number, headed=True)
        for match in lines.frame.finditer(line):
            if match[2] is None and match.end() >= len(line.rstrip(", in")):  # wrapped before the function's name
                sentence = sentence or self._sentence(text, start, end, number)
                match = lines.frame.search(join([part for _, part in sentence[:2]])[0]) or match  # noqa: PLW2901
            self._frame(match[1], match[2] or "", at, number)
        if self.reading.job_name is None and (name := lines.job_name.search(line)):
            self.reading.job_name = name[1]
        if self.reading.config_json is None and lines.config_banner.search(line):
            config = lines.config_body.match(text, end)
            self.reading.config_json = config[1].decode("utf-8", "replace") if config else None

    def _candidates(self, low: str) -> list[Message]:
        """As the catalogue's, remembered: logs repeat their lines, and failing ones their tracebacks."""
        found = self.seen.get(low)
        if found is None:
            if len(self.seen) >= _REMEMBERED:
                self.seen.clear()
            found = self.seen[low] = self.known.candidates(low)
        return found

    def _sentence(self, text: bytes, start: int, end: int, number: int) -> list[tuple[int, str]]:
        """The line and the lines that may continue it, each with its number and without rank or time stamps."""
        prefix, ends_sentence = self.known.lines.prefix, self.known.lines.ends_sentence
        lines = [(number, prefix.sub("", text[start:end].decode("utf-8", "replace")).strip("\r\n"))]
        place, limit = end, min(len(text), start + _SENTENCE_BYTES)
        while place < limit and len(lines) < _SENTENCE_LINES:
            breaks = 1 if text[place : place + 1] in (b"\n", b"\r") else 0
            number += text[place : place + 1] == b"\n"
            if text[place : place + 2] == b"\r\n":
                breaks, number = 2, number + 1
            place += breaks
            stop = min((e for e in (text.find(b"\n", place), text.find(b"\r", place)) if e >= 0), default=len(text))
            stop = min(stop, limit)
            line = prefix.sub("", text[place:stop].decode("utf-8", "replace"))
            if not breaks or ends_sentence.search(line):
                break
            lines.append((number, line))
            place = stop
        return lines

    def _sentence_finding(self, message: Message, at: int, lines: list[tuple[int, str]]) -> None:
        joined, starts = join([line for _, line in lines])
        first = len(lines[0][1])
        if not (found := self._found(message, joined, first)):
            return
        sizes: dict[str, list[float]] = {}
        spans: list[tuple[int, int]] = []
        if message.has_sizes:
            # A second request begins a second sentence.
            again = joined.lower().find("tried to allocate", joined.lower().find("tried to allocate") + 1)
            sizes, spans = read_sizes(joined if again < first else joined[:again])
        places = sorted({0, found - 1, *(place for start, end in spans for place in (start, end - 1))})
        of_line: dict[int, list[int]] = {}
        for place in places:
            index = bisect_right(starts, place) - 1
            of_line.setdefault(index, []).append(place - starts[index])
        cited: dict[int, str] = {}
        for index, within in of_line.items():  # pieces between carriage returns share a number
            number, line = lines[index]
            cited[number] = cited.get(number, "") + _excerpt(line, within)
        # The lines it took are not tried for the same message again.
        self.sentence_until[message.id] = at + sum(len(line.encode()) + 1 for _, line in lines[: max(of_line) + 1]) - 2
        self._keep(message, at, tuple((number, line.strip()) for number, line in cited.items()), sizes)

    def _found(self, message: Message, joined: str, first: int) -> int:
        """How far into the joined lines the message reaches; 0 where it is not there or starts in a later line."""
        if message.pattern is None:
            return first if message.proved_by(joined) else 0
        match = message.pattern.search(joined)
        return max(match.end(), 1) if match and match.start() <= first else 0

    def _keep(
        self, message: Message, at: int, cited: tuple[tuple[int, str], ...], sizes: dict[str, list[float]]
    ) -> None:
        line, text = cited[0]
        kept = self.kept.setdefault(message.id, [])
        doubled = bool(kept) and kept[-1].text == text and line - kept[-1].line <= 5 and self.last_bar_at < kept[-1].at
        if not doubled or not kept:
            self.reading.counts[message.id] = self.reading.counts.get(message.id, 0) + 1
        if len(kept) >= _KEPT:
            del kept[_KEPT // 2]
        kept.append(Finding(message.id, message.says, at, line, text, cited, sizes))

    # ------------------------------------------------------------------ where in the run

    def _stage_marks(self, line: str, at: int, number: int) -> None:
        for kind, mark in self.known.marks_on(line):
            self._mark(StageMark(mark.stage, kind, at, number, line.strip()[:_LONGEST_EVIDENCE]))

    def _mark(self, mark: StageMark) -> None:
        marks = self.reading.marks
        if len(marks) > 1 and (marks[-1].stage, marks[-1].kind, marks[-2].stage) == (mark.stage, mark.kind, mark.stage):
            marks[-1] = mark  # of a row of the same stage the first and the last are enough
        else:
            marks.append(mark)
        if len(marks) > 8 * _KEPT:
            del marks[4 * _KEPT]

    def _traceback(self, at: int, number: int, headed: bool) -> Traceback:
        tracebacks = self.reading.tracebacks
        tracebacks.append(Traceback(at, at, number, headed))
        if len(tracebacks) > _KEPT:
            del tracebacks[_KEPT // 2]
        return tracebacks[-1]

    def _frame(self, file: str, function: str, at: int, number: int) -> None:
        tracebacks = self.reading.tracebacks
        current = tracebacks[-1] if tracebacks else None
        if current is None or at - current.end > _LONGEST_LINE:
            current = self._traceback(at, number, headed=False)
        current.end = at
        if len(current.frames) < 400:
            current.frames.append((file.replace("\\", "/"), function))


def _excerpt(line: str, places: list[int]) -> str:
    """A line as evidence: whole, or where it is too long the parts of it around what was read there."""
    if len(line) <= _LONGEST_EVIDENCE:
        return line
    parts: list[tuple[int, int]] = []
    for place in places:
        left, right = max(0, place - 80), place + 80
        if parts and left <= parts[-1][1]:
            parts[-1] = (parts[-1][0], right)
        else:
            parts.append((left, right))
    return " … ".join(line[left:right] for left, right in parts)
