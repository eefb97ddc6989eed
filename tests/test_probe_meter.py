"""The meter in a real torch without a GPU: the card is ``cpu:0``, the host ``cpu``."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch in the Python of the tests; `python tests` makes one that has it")
if torch.cuda.is_available():
    pytest.skip("a machine without a GPU", allow_module_level=True)

from headroom.probe.counting import counting  # noqa: E402
from headroom.probe.meter import CARD, Meter  # noqa: E402

MB = 1000 * 1000 * 4  # a tensor of a thousand by a thousand numbers


@pytest.fixture
def meter() -> Iterator[Meter]:
    meter = Meter()
    with counting(torch, meter):
        yield meter


def square(device: str = "cpu") -> Any:
    return torch.zeros(1000, 1000, device=device)


def test_only_what_was_asked_for_on_the_card_counts_and_only_while_it_lives(meter: Meter) -> None:
    host = square()
    assert meter.live_bytes == 0
    card = square(CARD)
    assert (meter.live_bytes, str(card.device), str(host.device)) == (MB, CARD, "cpu")
    del card
    assert (meter.live_bytes, meter.peak_bytes) == (0, MB)


def test_what_is_made_from_something_on_the_card_is_there_too(meter: Meter) -> None:
    card, host = square(CARD), square()
    made = [card + 1, torch.zeros_like(card), card.new_zeros(1000, 1000), torch.ones(1000, 1000, device=card.device)]
    assert meter.live_bytes == 5 * MB
    alike = [host + 1, torch.zeros_like(host), torch.zeros_like(card, device="cpu"), card.view(-1), card.detach()]
    assert meter.live_bytes == 5 * MB
    assert [str(each.device) for each in (*made, *alike)] == [CARD] * 4 + ["cpu"] * 3 + [CARD] * 2


def test_moving_copies_as_on_a_gpu_and_only_where_it_has_to(meter: Meter) -> None:
    host = square()
    card = host.to(CARD)
    assert card is not host and meter.live_bytes == MB
    assert card.to(CARD) is card and host.to("cpu") is host
    back = card.to("cpu")
    back[0, 0] = 1
    assert (str(back.device), float(card[0, 0])) == ("cpu", 0.0)
    assert host.to(card).device == card.device and card.cpu().device == host.device
    assert card.to(torch.float64).device == card.device
    half = host.to(CARD, torch.float16)
    assert (meter.live_bytes, half.dtype) == (MB + MB // 2, torch.float16)


def test_a_copy_into_host_memory_stays_there(meter: Meter) -> None:
    host, card = square(), square(CARD)
    host.copy_(card)
    torch.add(card, card, out=host)
    host += card
    assert meter.live_bytes == MB and str(host.device) == "cpu"


def test_a_module_moved_to_the_host_leaves_the_card(meter: Meter) -> None:
    model = torch.nn.Linear(1000, 1000, bias=False).to(CARD)
    assert (meter.live_bytes, str(model.weight.device)) == (MB, CARD)
    model.to("cpu")
    gc.collect()
    assert (meter.live_bytes, str(model.weight.device)) == (0, "cpu")


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_and_the_state_of_an_optimizer_lie_on_the_card(meter: Meter, reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    model = torch.nn.Linear(1000, 1000, bias=False).to(CARD)
    optimizer = torch.optim.AdamW(model.parameters())
    seen: list[str] = []

    def block(x: Any) -> Any:
        seen.extend([str(x.device), str(model.weight.device)])
        return model(x).relu()

    x = torch.ones(10, 1000, device=CARD, requires_grad=True)
    checkpoint(block, x, use_reentrant=reentrant).sum().backward()
    assert seen == [CARD] * 4  # forward, and once more in the backward pass
    assert str(model.weight.grad.device) == CARD
    optimizer.step()
    del x
    assert meter.live_bytes == pytest.approx(4 * MB, rel=0.02)  # weight, gradient and two of state


def test_the_budget_is_the_cards_alone(meter: Meter) -> None:
    meter.budget_bytes, meter._error = 3 * MB, torch.OutOfMemoryError
    held = [square() for _ in range(5)]
    held.append(square(CARD))
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 11"):
        torch.zeros(3000, 1000, device=CARD)
    held.append(torch.zeros(2000, 1000, device=CARD))
    assert meter.live_bytes == 3 * MB


def test_where_the_two_cannot_be_told_apart_every_tensor_counts(meter: Meter) -> None:
    meter.apart = False
    host = square()
    assert (meter.live_bytes, str(host.device)) == (MB, "cpu")


def test_torch_is_as_it_was_afterwards() -> None:
    before = torch.autograd._engine_run_backward, torch.Tensor._make_wrapper_subclass
    with counting(torch, Meter()):
        assert torch.autograd._engine_run_backward is not before[0]
    assert (torch.autograd._engine_run_backward, torch.Tensor._make_wrapper_subclass) == before


def test_peaks_agree_with_the_memory_events_of_torchs_profiler() -> None:
    """The profiler counts the allocator's own calls, so that it sees what operations take for themselves as well."""
    from torch.profiler import ProfilerActivity, profile

    def train() -> None:
        torch.manual_seed(0)
        layers = [layer for _ in range(4) for layer in (torch.nn.Linear(400, 400), torch.nn.GELU())]
        model = torch.nn.Sequential(*layers).to(CARD)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            loss = (model(torch.randn(256, 400, device=CARD)) ** 2).mean()
            loss.backward()
            optimizer.step()

    meter = Meter()
    with counting(torch, meter), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        train()
    live = most = 0
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            most = max(most, live)
    # What the modules were made of lies on the host, until it is moved; it is gone before the peak.
    assert meter.peak_bytes == pytest.approx(most, rel=0.05)
