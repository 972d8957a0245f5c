"""Laws of attention and decoder, on small random models in double precision."""

import itertools
from pathlib import Path

import pytest
import torch
from torch import Tensor

from show_attend_tell.data.batches import PADDING
from show_attend_tell.learning.loop import checkpoint
from show_attend_tell.learning.model import rivals
from show_attend_tell.learning.model.attention import Attention, Memory
from show_attend_tell.learning.model.decoder import CaptionDecoder, Decoder
from show_attend_tell.learning.objectives.likelihood import (
    SoftTargets,
    double_stochasticity,
    likelihood,
    soft_cost,
)
from show_attend_tell.learning.recipe import ModelSection
from tests.textbook import textbook_loss

PLACES, DEPTH, WORDS = 5, 6, 9

VARIANTS = {
    "paper": {},
    "authors": {"readout": "tanh", "initial": "shared"},
    "ours": {
        "annotation_norm": "layer",
        "annotation_width": 4,
        "readout": "tanh",
        "start": "learned",
    },
    "no gate": {"gate": False},
}


RIVALS = {
    "mean": {"attention": "mean", "annotation_norm": "layer"},
    "nic": {"attention": "nic", "readout": "tanh"},
    "log-bilinear": {"attention": "log-bilinear", "annotation_width": 4},
}


@pytest.fixture(params=VARIANTS)
def decoder(request: pytest.FixtureRequest) -> Decoder:
    return make_decoder(**VARIANTS[request.param])


@pytest.fixture(params=RIVALS)
def rival(request: pytest.FixtureRequest) -> CaptionDecoder:
    return make_any_decoder(**RIVALS[request.param])


@pytest.fixture(params=VARIANTS | RIVALS)
def any_decoder(request: pytest.FixtureRequest) -> CaptionDecoder:
    return make_any_decoder(**(VARIANTS | RIVALS)[request.param])


def make_any_decoder(**options: object) -> CaptionDecoder:
    torch.manual_seed(3)
    recipe = ModelSection(hidden=7, word=5, attention_width=4, **options)  # type: ignore[arg-type]
    # While it learns, NIC standardises a batch of pictures; only then does one change another.
    return rivals.make_decoder(recipe, DEPTH, WORDS).double().eval()


def make_decoder(**options: object) -> Decoder:
    decoder = make_any_decoder(**options)
    assert isinstance(decoder, Decoder)
    return decoder


def world(captions: int = 6, steps: int = 4) -> tuple[Tensor, Tensor]:
    torch.manual_seed(4)
    annotations = torch.randn(captions, PLACES, DEPTH, dtype=torch.double)
    return annotations, torch.randint(0, WORDS, (captions, steps))


def cost_of(
    decoder: CaptionDecoder, annotations: Tensor, captions: Tensor, smoothing: float = 0.0
) -> Tensor:
    lesson = decoder(annotations, captions)
    return soft_cost(
        decoder, lesson, captions, double_stochastic=0.7, label_smoothing=smoothing
    ).loss


def test_alpha_sums_to_one_and_beta_lies_between_zero_and_one(decoder: Decoder) -> None:
    lesson = decoder(*world())
    assert torch.allclose(lesson.alphas.sum(dim=2), torch.ones_like(lesson.gates))
    assert (lesson.alphas > 0).all()
    if decoder.attention.gate is None:
        assert (lesson.gates == 1).all()
    else:
        assert ((lesson.gates > 0) & (lesson.gates < 1)).all()


def test_one_place_means_its_own_vector() -> None:
    attention = Attention(DEPTH, 7, 4, has_gate=False).double()
    annotations = torch.randn(3, 1, DEPTH, dtype=torch.double)
    memory = attention.prepare(annotations)
    alpha, gate = attention.look(memory, torch.randn(3, 7, dtype=torch.double))
    assert torch.allclose(attention.context(memory, alpha, gate), annotations[:, 0])


def test_context_is_the_gated_weighted_sum() -> None:
    attention = Attention(DEPTH, 7, 4, has_gate=True).double()
    memory = attention.prepare(torch.randn(2, PLACES, DEPTH, dtype=torch.double))
    weights = torch.rand(2, PLACES, dtype=torch.double)
    gate = torch.tensor([0.25, 1.0], dtype=torch.double)
    expected = gate[:, None] * torch.einsum("bl,bld->bd", weights, memory.annotations)
    assert torch.allclose(attention.context(memory, weights, gate), expected)


def test_scores_equal_a_tanh_even_far_out() -> None:
    torch.manual_seed(6)
    attention = Attention(DEPTH, 7, 4, has_gate=False).double()
    annotations = 10 * torch.randn(3, PLACES, DEPTH, dtype=torch.double)
    h = 10 * torch.randn(3, 7, dtype=torch.double)
    alpha, _ = attention.look(attention.prepare(annotations), h)
    hidden = torch.tanh(attention.annotation(annotations) + attention.state(h).unsqueeze(1))
    assert torch.allclose(alpha, torch.softmax(hidden @ attention.score, dim=1))


def test_huge_keys_and_queries_give_no_nonsense_in_single_precision() -> None:
    attention = Attention(DEPTH, 7, 4, has_gate=False)
    annotations, h = 1e4 * torch.randn(3, PLACES, DEPTH), 1e4 * torch.randn(3, 7)
    alpha, _ = attention.look(attention.prepare(annotations), h)
    assert torch.isfinite(alpha).all()


def test_rows_of_one_picture_share_its_memory() -> None:
    attention = Attention(DEPTH, 7, 4, has_gate=True).double()
    annotations = torch.randn(2, PLACES, DEPTH, dtype=torch.double)
    h = torch.randn(6, 7, dtype=torch.double)  # three rows a picture
    shared = attention.prepare(annotations)
    repeated = attention.prepare(annotations.repeat_interleave(3, dim=0))
    for one, other in zip(attention.look(shared, h), attention.look(repeated, h), strict=True):
        assert torch.allclose(one, other)
    weights, gate = torch.rand(6, PLACES, dtype=torch.double), torch.rand(6, dtype=torch.double)
    assert torch.allclose(
        attention.context(shared, weights, gate), attention.context(repeated, weights, gate)
    )


def test_forward_equals_the_textbook_in_loss_alphas_and_every_gradient(decoder: Decoder) -> None:
    annotations, captions = world()
    annotations.requires_grad_()
    expected, alphas = textbook_loss(decoder, annotations, captions, double_stochastic=0.7)
    expected.backward()
    gradients = {name: p.grad.clone() for name, p in decoder.named_parameters()}
    into_picture = annotations.grad.clone()
    decoder.zero_grad()
    annotations.grad = None
    loss = cost_of(decoder, annotations, captions)
    loss.backward()
    assert torch.allclose(loss, expected)
    assert torch.allclose(decoder(annotations, captions).alphas, alphas)
    assert torch.allclose(annotations.grad, into_picture)
    for name, parameter in decoder.named_parameters():
        assert torch.allclose(parameter.grad, gradients[name], atol=1e-12), name


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients_by_finite_differences(any_decoder: CaptionDecoder, smoothing: float) -> None:
    annotations, captions = world(captions=3, steps=3)
    cost_of(any_decoder, annotations, captions, smoothing).backward()
    random = torch.Generator().manual_seed(0)
    step = 1e-6
    for name, parameter in any_decoder.named_parameters():
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        for i in torch.randint(len(flat), (4,), generator=random).tolist():
            before = float(flat[i])
            with torch.no_grad():
                flat[i] = before + step
                above = float(cost_of(any_decoder, annotations, captions, smoothing))
                flat[i] = before - step
                below = float(cost_of(any_decoder, annotations, captions, smoothing))
                flat[i] = before
            slope = (above - below) / (2 * step)
            frozen = name == "embedding.weight" and any_decoder.embedding.padding_idx == i // 5
            if not frozen:  # the zero vector before the first word is not learned
                assert float(gradient[i]) == pytest.approx(slope, rel=1e-5, abs=1e-7), name


def test_the_zero_start_stays_zero() -> None:
    decoder = make_decoder()
    cost_of(decoder, *world()).backward()
    assert (decoder.embedding.weight[WORDS] == 0).all()
    assert (decoder.embedding.weight.grad[WORDS] == 0).all()


def test_forward_equals_a_loop_of_look_and_advance(any_decoder: CaptionDecoder) -> None:
    annotations, captions = world()
    lesson = any_decoder(annotations, captions)
    logits = torch.nn.functional.linear(lesson.readout, *any_decoder.softmax_layer())
    memory, state = any_decoder.start(annotations)
    word = torch.full((len(captions),), WORDS)
    for t, target in enumerate(captions.unbind(1)):
        alpha, gate = any_decoder.look(memory, state)
        state, told = any_decoder.advance(memory, state, alpha, gate, word)
        assert torch.allclose(alpha, lesson.alphas[:, t])
        assert torch.allclose(gate, lesson.gates[:, t])
        assert torch.allclose(told, logits[:, t])
        word = target


def test_a_batch_equals_its_singles(any_decoder: CaptionDecoder) -> None:
    annotations, captions = world(captions=9)  # more than the attention works on at once
    together = cost_of(any_decoder, annotations, captions)
    alone = [cost_of(any_decoder, annotations[i : i + 1], captions[i : i + 1]) for i in range(9)]
    assert torch.allclose(together, torch.stack(alone).mean())


def test_padding_and_a_second_sentence_never_change_a_loss(any_decoder: CaptionDecoder) -> None:
    annotations, captions = world(captions=2, steps=6)
    short = captions[:1, :3]
    padded = captions.clone()
    padded[0, 3:] = PADDING
    alone = cost_of(any_decoder, annotations[:1], short)
    other = cost_of(any_decoder, annotations[1:], captions[1:])
    assert torch.allclose(cost_of(any_decoder, annotations[:1], padded[:1]), alone)
    assert torch.allclose(cost_of(any_decoder, annotations, padded), (alone + other) / 2)


def test_captions_of_one_picture_cost_what_each_costs_alone(any_decoder: CaptionDecoder) -> None:
    """Of any lengths, in any order, and to the last gradient."""
    annotations, captions = world(captions=6, steps=6)
    annotations = annotations[:2]  # three captions of each
    for row, length in enumerate((6, 2, 4, 1, 5, 3)):
        captions[row, length:] = PADDING
    together = gradients_of(any_decoder, cost_of(any_decoder, annotations, captions))
    alone = [
        gradients_of(any_decoder, cost_of(any_decoder, annotations[i // 3 : i // 3 + 1], caption))
        for i, caption in enumerate(captions.split(1))
    ]
    for name, gradient in together.items():
        mean = torch.stack([one[name] for one in alone]).mean(0)
        assert torch.allclose(gradient, mean, atol=1e-12), name


def gradients_of(any_decoder: CaptionDecoder, cost: Tensor) -> dict[str, Tensor]:
    """Of the cost itself and of every weight that it depends on."""
    any_decoder.zero_grad()
    cost.backward()  # type: ignore[no-untyped-call]
    weights = {n: p.grad.clone() for n, p in any_decoder.named_parameters() if p.grad is not None}
    return {"cost": cost.detach(), **weights}


def test_a_rival_does_not_care_where_things_are(rival: CaptionDecoder) -> None:
    annotations, captions = world()
    shuffled = annotations[:, torch.randperm(PLACES)]
    lesson = rival(annotations, captions)
    assert torch.allclose(rival(shuffled, captions).readout, lesson.readout)
    assert torch.allclose(lesson.alphas, torch.full_like(lesson.alphas, 1 / PLACES))
    others = rival(annotations.flip(0), captions)
    assert not torch.allclose(others.readout, lesson.readout)  # but for which picture it is


def test_what_all_pictures_share_does_not_reach_a_learning_nic() -> None:
    nic = make_any_decoder(attention="nic").train()
    annotations, captions = world()
    alike = annotations + 100 * torch.randn(DEPTH, dtype=torch.double)
    found = [nic(pictures, captions).readout for pictures in (annotations, alike)]
    assert torch.allclose(*found)
    assert not torch.allclose(found[0], nic(annotations.flip(0), captions).readout)


def test_a_young_nic_still_knows_its_picture_after_ten_words() -> None:
    nic = make_any_decoder(attention="nic")
    memory, states = nic.start(world()[0])
    words = torch.zeros(len(states.h), dtype=torch.long)
    spread = [states.c.std(dim=0).mean()]  # between pictures
    for _ in range(10):
        states, _ = nic.advance(memory, states, *nic.look(memory, states), words)
        spread.append(states.c.std(dim=0).mean())
    assert spread[-1] > 0.5 * spread[0]


def test_a_learning_nic_may_be_shown_one_picture_alone() -> None:
    nic = make_any_decoder(attention="nic")
    annotations, captions = world(1)
    told = nic(annotations, captions).readout
    assert torch.equal(nic.train()(annotations, captions).readout, told)


def test_the_log_bilinear_rival_knows_the_last_words_alone() -> None:
    rival = make_any_decoder(attention="log-bilinear")
    annotations, captions = world(captions=1, steps=9)
    other = captions.clone()
    other[0, 1] = (captions[0, 1] + 1) % WORDS
    before, after = (rival(annotations, words).readout[0] for words in (captions, other))
    changed = [not torch.allclose(*pair) for pair in zip(before, after, strict=True)]
    assert changed == [False] * 2 + [True] * rivals.WINDOW + [False] * (7 - rivals.WINDOW)


def test_penalty_is_summed_over_places_and_reaches_its_floor_when_evenly_spread() -> None:
    even = torch.full((1, 3, PLACES), 1 / PLACES, dtype=torch.double)
    told = torch.ones(1, 3, dtype=torch.bool)
    penalty, floor = double_stochasticity(even, told)
    assert float(penalty) == pytest.approx(floor) == pytest.approx(PLACES * (1 - 3 / PLACES) ** 2)
    one_place = torch.zeros_like(even)
    one_place[:, :, 0] = 1
    penalty, _ = double_stochasticity(one_place, told)
    assert float(penalty) == pytest.approx((1 - 3) ** 2 + (PLACES - 1))


@pytest.mark.parametrize(
    ("smoothing", "rows", "advised"), list(itertools.product([0.0, 0.2], [5, 900], [0.0, 0.3, 1.0]))
)
def test_likelihood_equals_cross_entropy(smoothing: float, rows: int, advised: float) -> None:
    torch.manual_seed(5)
    readout, weight, bias = (
        torch.randn(*shape, dtype=torch.double, requires_grad=True)
        for shape in ((rows, 3), (WORDS, 3), (WORDS,))
    )
    targets, shares = torch.randint(WORDS, (rows,)), torch.rand(rows, dtype=torch.double)
    probs = torch.randn(rows, WORDS, dtype=torch.double).softmax(1)
    soft_targets = SoftTargets(probs, advised) if advised else None
    loss, nats = likelihood(readout, weight, bias, targets, shares, smoothing, soft_targets)
    logits = readout @ weight.t() + bias
    each = torch.nn.functional.cross_entropy(
        logits, targets, reduction="none", label_smoothing=smoothing
    )
    of_teachers = torch.nn.functional.cross_entropy(logits, probs, reduction="none")
    expected = (shares * ((1 - advised) * each + advised * of_teachers)).sum()
    assert torch.allclose(loss, expected)
    plain = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    assert torch.allclose(nats, plain)
    ours = torch.autograd.grad(3 * loss, (readout, weight, bias))
    for one, other in zip(
        ours, torch.autograd.grad(3 * expected, (readout, weight, bias)), strict=True
    ):
        assert torch.allclose(one, other)


def test_dropout_follows_its_generator_and_is_off_without_one() -> None:
    decoder = make_decoder(dropout=0.5)
    annotations, captions = world()

    def readout(seed: int | None) -> Tensor:
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        return decoder(annotations, captions, generator).readout

    assert torch.equal(readout(1), readout(1))
    assert not torch.equal(readout(1), readout(2))
    assert torch.equal(readout(None), readout(None))
    assert (readout(1) == 0).double().mean() == pytest.approx(0.5, abs=0.2)
    assert (readout(None) != 0).all()


def test_grown_keys_carry_no_gradient_of_their_own() -> None:
    attention = Attention(DEPTH, 7, 4, has_gate=False)
    memory: Memory = attention.prepare(torch.randn(2, PLACES, DEPTH))
    assert memory.keys.requires_grad
    assert not memory.exp_keys.requires_grad


def test_every_variant_can_be_saved_and_loaded(any_decoder: CaptionDecoder, tmp_path: Path) -> None:
    before = any_decoder.state_dict()
    checkpoint.save(tmp_path / "decoder.safetensors", before, {})
    after, _ = checkpoint.load(tmp_path / "decoder.safetensors")
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
