"""Rewards for drawn captions, against the scorers and against exact enumeration.

Two words and an end, three steps at the most, make 15 captions: few enough to sum the expected
reward over all of them, and its gradient with respect to every weight.
"""

import itertools
from collections.abc import Sequence

import pytest
import torch
from sacrebleu.metrics import BLEU as SacreBLEU
from torch import Tensor

from show_attend_tell.data.batches import PADDING
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.learning.model.decoder import Decoder
from show_attend_tell.learning.objectives.likelihood import Cost, soft_cost
from show_attend_tell.learning.objectives.rewards import (
    CaptionReward,
    advantages,
    reinforce_loss,
    rewarded_cost,
    sample_captions,
)
from show_attend_tell.learning.recipe import ModelSection, RewardSection
from show_attend_tell.scoring.metrics.bleu import bleu_rows, smoothed_bleu
from show_attend_tell.scoring.metrics.cider import DocumentFrequencies, cider_rows

PLACES, STEPS, DEPTH, WORDS = 3, 3, 4, 3
Gradients = dict[str, Tensor]

PEOPLE = {
    3: ("A dog runs .", "A brown dog runs on grass .", "The dog plays ."),
    8: ("Two men sit .", "Two men sit on a bench ."),
    9: ("A zebra stands .",),
}


def captions_of_up_to(steps: int) -> Tensor:
    """All that can be told: ended at any step, or not at all."""
    found = [
        [*words, Vocabulary.END, *[PADDING] * (steps - length - 1)]
        for length in range(steps)
        for words in itertools.product(range(1, WORDS), repeat=length)
    ]
    return torch.tensor([*found, *itertools.product(range(1, WORDS), repeat=steps)])


EVERYTHING = captions_of_up_to(STEPS)  # (15, 3)
WORTH = torch.linspace(-1, 2, len(EVERYTHING), dtype=torch.double).square()  # any will do


@pytest.fixture
def decoder() -> Decoder:
    torch.manual_seed(3)
    recipe = ModelSection(hidden=4, word=3, attention_width=4, dropout=0.4)
    return Decoder(recipe, DEPTH, WORDS).double()


def picture() -> Tensor:
    generator = torch.Generator().manual_seed(4)
    return 3 * torch.randn(1, PLACES, DEPTH, dtype=torch.double, generator=generator)


def log_probs_of(decoder: Decoder, annotations: Tensor, captions: Tensor) -> Tensor:
    """Log p of whole captions, by the textbook: (captions,)."""
    logits = decoder.output(decoder(annotations, captions).readout)
    told = captions != PADDING
    words = torch.log_softmax(logits, 2).gather(2, captions.clamp(min=0).unsqueeze(2)).squeeze(2)
    return words.where(told, 0.0).sum(1)


def gradients_of(decoder: Decoder, value: Tensor) -> Gradients:
    decoder.zero_grad()
    value.backward()  # type: ignore[no-untyped-call]
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
        for name, p in decoder.named_parameters()
    }


def expected_reward(decoder: Decoder) -> Tensor:
    return (log_probs_of(decoder, picture(), EVERYTHING).exp() * WORTH).sum()


def worth_of(captions: Tensor) -> Tensor:
    """The made-up reward of captions of up to STEPS words: (rows,)."""
    padded = torch.nn.functional.pad(captions, (0, STEPS - captions.shape[1]), value=PADDING)
    matches = (padded.unsqueeze(1) == EVERYTHING).all(2)
    assert (matches.sum(1) == 1).all()
    return WORTH[matches.long().argmax(1)]


def nothing(decoder: Decoder) -> Cost:
    """A cost of true captions to be mixed with."""
    captions = torch.ones(1, 1, dtype=torch.long)
    lesson = decoder(picture(), captions)
    return soft_cost(decoder, lesson, captions, double_stochastic=0.0, label_smoothing=0.0)


# What a caption is worth


def some_words() -> Vocabulary:
    """Words of which "zebra" is not one: the references know more than the model."""
    captions = [caption.replace("zebra", "") for own in PEOPLE.values() for caption in own]
    return Vocabulary.build(captions, punctuation=True)


def reward_of(texts: Sequence[str], rows: Sequence[int], **rule: float) -> Tensor:
    """What texts are worth, as the model tells them."""
    words = some_words()
    lines = [[words.words.index(word) for word in text.split()] for text in texts]
    longest = max(map(len, lines))
    captions = torch.tensor([[*line, *[PADDING] * (longest - len(line))] for line in lines])
    return CaptionReward(PEOPLE, words, RewardSection.model_validate(rule))(rows, captions)


TEXTS = [
    "a dog runs . <end>",
    "a brown dog runs on grass . <end>",
    "two men sit on a bench . <end>",
    "two dog dog dog",  # never ended
    "<end>",
    "a <unk> . <end>",
]


@pytest.mark.parametrize("of_each", [1, 2])
def test_a_reward_is_what_the_scorers_say_of_the_same_words(of_each: int) -> None:
    rows = [3, 8, 8, 3, 9, 9] if of_each == 1 else [3, 8, 9]
    people = [[f"{text.lower()} <end>" for text in PEOPLE[row]] for row in PEOPLE]
    table = DocumentFrequencies.of(people)
    references = [people[list(PEOPLE).index(row)] for row in rows for _ in range(of_each)]
    cider = cider_rows(TEXTS, references, table)[:, 0]
    bleu = smoothed_bleu(bleu_rows(TEXTS, references))
    assert len(set(cider.tolist())) > 3
    assert reward_of(TEXTS, rows).tolist() == pytest.approx(cider.tolist())
    found = reward_of(TEXTS, rows, cider=0.5, bleu=3.0)
    assert found.tolist() == pytest.approx((0.5 * cider + 3.0 * bleu).tolist())


@pytest.mark.parametrize("rule", [{"cider": 1.0}, {"cider": 0.0, "bleu": 1.0}], ids=str)
def test_a_caption_that_stops_in_the_middle_or_never_is_worth_less(rule: dict[str, float]) -> None:
    whole = "a dog runs . <end>"
    others = ["a dog runs .", "a dog runs <end>", "a dog <end>"]
    best, *rest = reward_of([whole, *others], [3] * 4, **rule).tolist()
    assert best > max(rest)


def test_the_unknown_word_is_never_right() -> None:
    """Its references hold a word that the model has not; guessing so earns nothing."""
    unknown, left_out = reward_of(["a <unk> stands .", "a stands ."], [9, 9]).tolist()
    assert unknown <= left_out
    nothing_right = reward_of(["<unk>"], [9], cider=1.0, bleu=1.0)
    assert float(nothing_right) < 1e-3


def test_smoothed_bleu_is_sacrebleu_s_with_one_added() -> None:
    others = [["a dog runs .", "the brown dog runs on grass ."], ["two men sit on a bench ."]]
    mine = ["a brown dog runs on the grass .", "two men on a big bench"]
    oracle = SacreBLEU(
        tokenize="none", smooth_method="add-k", smooth_value=1, effective_order=False
    )
    expected = [oracle.sentence_score(*pair).score / 100 for pair in zip(mine, others, strict=True)]
    assert smoothed_bleu(bleu_rows(mine, others)).tolist() == pytest.approx(expected, abs=1e-6)


# What it is compared with


def test_advantages_of_a_picture_sum_to_zero() -> None:
    rewards = torch.rand(15, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    found = advantages(rewards, samples=5).view(3, 5)
    assert torch.allclose(found.sum(1), torch.zeros(3, dtype=torch.double), atol=1e-12)
    first = rewards[0] - rewards[1:5].mean()
    assert torch.allclose(found[0, 0], first)


# Captions that are drawn


def test_words_are_drawn_by_their_probabilities(decoder: Decoder) -> None:
    draws, rng = 6000, torch.Generator().manual_seed(5)
    drawn = sample_captions(decoder, picture().expand(draws // 2, -1, -1), 2, STEPS, rng)
    counts = (drawn.unsqueeze(1) == EVERYTHING).all(2).sum(0)
    assert int(counts.sum()) == draws
    p = log_probs_of(decoder, picture(), EVERYTHING).exp()
    assert torch.allclose(p.sum(), torch.ones((), dtype=torch.double))
    assert (counts / draws - p).abs().max() < 4 * (0.25 / draws) ** 0.5


def test_captions_of_a_picture_lie_side_by_side(decoder: Decoder) -> None:
    pictures = torch.cat([picture(), -5 * picture()])
    decoder.output.weight.data *= 300  # so sure that all samples are the same
    rng = torch.Generator().manual_seed(5)
    found = sample_captions(decoder, pictures, 3, STEPS, rng)
    first, second = found[:1], found[3:4]
    assert not torch.equal(first, second)
    assert torch.equal(found, torch.cat([first, second]).repeat_interleave(3, dim=0))


# The gradient


def test_a_caption_better_than_its_baseline_becomes_likelier(decoder: Decoder) -> None:
    captions = EVERYTHING[[4, 9]]
    before = log_probs_of(decoder, picture(), captions).detach()
    advantage = advantages(torch.tensor([2.0, 0.5], dtype=torch.double), samples=2)
    reinforce_loss(decoder, picture(), captions, advantage).backward()  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for p in decoder.parameters():
            if p.grad is not None:
                p -= 0.01 * p.grad
    better, worse = (log_probs_of(decoder, picture(), captions) - before).tolist()
    assert better > 0 > worse


def test_the_estimator_s_mean_is_the_gradient_of_the_expected_reward(decoder: Decoder) -> None:
    """Two samples, each the other's baseline: all 225 pairs, weighed by their probabilities."""
    p = log_probs_of(decoder, picture(), EVERYTHING).exp().detach()
    pairs = torch.cartesian_prod(*[torch.arange(len(EVERYTHING))] * 2)  # (225, 2)
    weights = p[pairs].prod(1).repeat_interleave(2) * len(pairs)  # the loss is linear in advantages
    advantage = advantages(WORTH[pairs.flatten()], samples=2) * weights
    loss = reinforce_loss(decoder, picture(), EVERYTHING[pairs.flatten()], advantage)
    found = gradients_of(decoder, -loss)
    expected = gradients_of(decoder, expected_reward(decoder))
    for name in expected:
        assert torch.allclose(found[name], expected[name], rtol=0, atol=1e-10), name
    assert max(float(g.abs().max()) for g in expected.values()) > 1e-3


def test_many_draws_come_near_the_gradient_of_the_expected_reward(decoder: Decoder) -> None:
    """Dice, rewards, baseline and loss together, as training has them."""
    rule = RewardSection(weight=1.0, samples=5)
    many = picture().expand(1500, -1, -1)
    rng = torch.Generator().manual_seed(6)
    cost = rewarded_cost(nothing(decoder), decoder, many, worth_of, rule, STEPS, rng)
    found = gradients_of(decoder, -cost.loss)
    exactly = expected_reward(decoder)
    expected = gradients_of(decoder, exactly)
    flat, exact = (torch.cat([g.flatten() for g in one.values()]) for one in (found, expected))
    assert float((flat - exact).norm() / exact.norm()) < 0.1
    assert cost.reward == pytest.approx(float(exactly.detach()), rel=0.05)


def test_the_weight_is_the_reward_s_share_of_the_objective(decoder: Decoder) -> None:
    def gradients(weight: float) -> Gradients:
        rule = RewardSection(weight=weight)
        rng = torch.Generator().manual_seed(6)
        cost = rewarded_cost(nothing(decoder), decoder, picture(), worth_of, rule, STEPS, rng)
        return gradients_of(decoder, cost.loss)

    words = gradients_of(decoder, nothing(decoder).loss)
    reward, mixed = gradients(1.0), gradients(0.3)
    for name in words:
        assert torch.allclose(mixed[name], 0.3 * reward[name] + 0.7 * words[name]), name
    assert any(float(g.abs().max()) > 1e-3 for g in reward.values())


def test_drawn_captions_are_taught_with_dropout(decoder: Decoder) -> None:
    captions, advantage = EVERYTHING[[4, 9]], torch.tensor([1.0, -1.0], dtype=torch.double)
    plain = reinforce_loss(decoder, picture(), captions, advantage)
    dropped = reinforce_loss(
        decoder, picture(), captions, advantage, torch.Generator().manual_seed(1)
    )
    assert not torch.equal(plain, dropped)
