"""Hard attention's learning rule against exact enumeration, in double precision.

Three places and three words make 27 ways to look: small enough to sum the variational bound L_s of
section 4.1 over all of them, and its gradient with respect to every weight.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from torch import Tensor

from show_attend_tell.data.batches import PADDING
from show_attend_tell.learning.model.decoder import Decoder
from show_attend_tell.learning.objectives.hard import (
    Baseline,
    WordsCost,
    expected_cost,
    hard_cost,
    sample_place,
    sampled_cost,
)
from show_attend_tell.learning.objectives.likelihood import Cost, entropy, soft_cost
from show_attend_tell.learning.recipe import HardSection, ModelSection

PLACES, STEPS, DEPTH, WORDS = 3, 3, 4, 5
PATHS = list(itertools.product(range(PLACES), repeat=STEPS))
Gradients = dict[str, Tensor]


@pytest.fixture
def decoder() -> Decoder:
    torch.manual_seed(3)
    recipe = ModelSection(attention="hard", hidden=4, word=3, attention_width=4)
    return Decoder(recipe, DEPTH, WORDS).double()


def pictures(count: int) -> Tensor:
    # Far apart, so that it matters where one looks.
    return 3 * torch.randn(
        count, PLACES, DEPTH, dtype=torch.double, generator=torch.Generator().manual_seed(4)
    )


def captions(count: int) -> Tensor:
    return torch.randint(0, WORDS, (count, STEPS), generator=torch.Generator().manual_seed(5))


class Given:
    """Looks where the test says."""

    def __init__(self, path: tuple[int, ...]) -> None:
        self.path = iter(path)

    def __call__(self, alpha: Tensor) -> Tensor:
        weights = torch.zeros_like(alpha)
        weights[:, next(self.path)] = 1
        return weights


class Fixed(Baseline):
    """A baseline of one value, whatever is seen."""

    def __init__(self, value: float) -> None:
        super().__init__("average")
        self.value = value

    def expect(self, rewards: Tensor, mask: Tensor, samples: int) -> Tensor:
        return torch.full_like(rewards, self.value)


def words_cost_of(decoder: Decoder) -> WordsCost:
    return partial(soft_cost, decoder, double_stochastic=0.0, label_smoothing=0.0)


def rule_of(**changes: object) -> HardSection:
    return HardSection.model_validate({"entropy_weight": 0.0, **changes})


def cost_of(
    decoder: Decoder,
    annotations: Tensor,
    words: Tensor,
    path: tuple[int, ...] | None,
    baseline: Baseline,
    **changes: object,
) -> Cost:
    """The cost along one way to look, the same for all captions; None: by the expected value."""
    given = decoder, annotations, words, words_cost_of(decoder)
    if path is None:
        return expected_cost(*given, rule_of(**changes))
    return sampled_cost(*given, Given(path), baseline, rule_of(**changes))


def drawn_cost(
    decoder: Decoder,
    annotations: Tensor,
    words: Tensor,
    rng: torch.Generator,
    baseline: Baseline,
    **changes: object,
) -> Cost:
    """The cost as training has it, with coins and places drawn."""
    words_cost = words_cost_of(decoder)
    return hard_cost(decoder, annotations, words, words_cost, baseline, rule_of(**changes), rng)


def gradients_of(decoder: Decoder, value: Tensor) -> Gradients:
    decoder.zero_grad()
    value.backward()  # type: ignore[no-untyped-call]
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
        for name, p in decoder.named_parameters()
    }


def probability_of(decoder: Decoder, annotations: Tensor, words: Tensor, path: tuple[int, ...]):
    """p(s | a), log p(y | s, a) and the entropies Σ_t H(α_t) along the way, each (captions,)."""
    lesson = decoder(annotations, words, choose=Given(path))
    cost = log_likelihood(decoder, lesson.readout, words)
    chosen = lesson.alphas[:, torch.arange(STEPS), torch.tensor(path)]
    return chosen.prod(1), cost, entropy(lesson.alphas).sum(1)


def log_likelihood(decoder: Decoder, readout: Tensor, words: Tensor) -> Tensor:
    log_p = torch.log_softmax(decoder.output(readout), dim=2)
    return log_p.gather(2, words.unsqueeze(2)).squeeze(2).sum(1)


def bound(
    decoder: Decoder, annotations: Tensor, words: Tensor, expected_share: float, spread: float
) -> Tensor:
    """What is to be ascended, exactly: mean over captions of the bound and what is added to it."""
    total = annotations.new_zeros(len(words))
    for path in PATHS:
        p, log_p, entropies = probability_of(decoder, annotations, words, path)
        # The rule follows the entropies along a path, not how the paths' probabilities change them.
        total = total + (1 - expected_share) * (p * log_p + spread * p.detach() * entropies)
    lesson = decoder(annotations, words)
    alone = log_likelihood(decoder, lesson.readout, words)
    total = total + expected_share * (alone + spread * entropy(lesson.alphas).sum(1))
    return total.mean()


def mean_estimate(
    decoder: Decoder,
    annotations: Tensor,
    words: Tensor,
    baseline: Callable[[], Baseline],
    expected_share: float = 0.0,
    **rule: object,
) -> Gradients:
    """The mean of the estimator over all outcomes of its dice, each weighed by its probability.

    Captions are independent, so it is enough that each outcome is the same for all of them, as long
    as each caption's share of the gradient is weighed by its own probability: one caption a time.
    """
    total: Gradients = {n: torch.zeros_like(p) for n, p in decoder.named_parameters()}
    for one, caption in zip(annotations.split(1), words.split(1), strict=True):
        for path, share in outcomes(expected_share):
            p = probability_of(decoder, one, caption, path)[0] if path else torch.ones(1)
            cost = cost_of(decoder, one, caption, path, baseline(), **rule)
            found = gradients_of(decoder, cost.loss)
            for name in total:
                total[name] -= share * float(p.detach()) * found[name] / len(words)
    return total


def outcomes(expected_share: float) -> Iterator[tuple[tuple[int, ...] | None, float]]:
    yield from ((path, 1 - expected_share) for path in PATHS)
    if expected_share:
        yield None, expected_share


def assert_same(found: Gradients, expected: Gradients, tolerance: float = 1e-10) -> None:
    for name in expected:
        assert torch.allclose(found[name], expected[name], rtol=0, atol=tolerance), name
    assert max(float(g.abs().max()) for g in expected.values()) > 1e-3  # something to be compared


@pytest.mark.parametrize("value", [0.0, -7.5])
@pytest.mark.parametrize("reward", ["caption", "rest"])
def test_the_estimator_s_mean_is_the_gradient_of_the_bound(
    decoder: Decoder, value: float, reward: str
) -> None:
    annotations, words = pictures(2), captions(2)
    found = mean_estimate(decoder, annotations, words, lambda: Fixed(value), reward=reward)
    expected = gradients_of(decoder, bound(decoder, annotations, words, 0.0, 0.0))
    assert_same(found, expected)


def test_mixing_and_entropy_add_their_gradients(decoder: Decoder) -> None:
    annotations, words = pictures(2), captions(2)
    found = mean_estimate(
        decoder, annotations, words, lambda: Fixed(-3.0), expected_share=0.3, entropy_weight=0.7
    )
    expected = gradients_of(decoder, bound(decoder, annotations, words, 0.3, 0.7))
    assert_same(found, expected)


def test_the_reward_weight_scales_the_reward_term_alone(decoder: Decoder) -> None:
    annotations, words = pictures(1), captions(1)
    for path in PATHS[:5]:
        one, two, none = (
            gradients_of(
                decoder,
                cost_of(decoder, annotations, words, path, Fixed(-3.0), reward_weight=weight).loss,
            )
            for weight in (1.0, 2.0, 0.0)
        )
        assert_same({n: two[n] - none[n] for n in two}, {n: 2 * (one[n] - none[n]) for n in one})


@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_many_draws_come_near_the_bound(decoder: Decoder, samples: int, share: float) -> None:
    """The dice themselves: multinoulli of alpha, and a coin a picture for the expected value."""
    draws = 12_000 // samples
    annotations, words = pictures(1).expand(draws, -1, -1), captions(1).expand(draws, -1)
    cost = drawn_cost(
        decoder,
        annotations,
        words,
        torch.Generator().manual_seed(6),
        Fixed(-5.0),
        samples=samples,
        expected_share=share,
        entropy_weight=0.2,
    )
    found = gradients_of(decoder, -cost.loss)
    expected = gradients_of(decoder, bound(decoder, pictures(1), captions(1), share, 0.2))
    flat, exact = (torch.cat([g.flatten() for g in one.values()]) for one in (found, expected))
    assert float((flat - exact).norm() / exact.norm()) < 0.1


def test_the_coin_is_thrown_for_each_picture(decoder: Decoder) -> None:
    """A picture taught by its expected value is taught once, another once for each sample."""
    annotations, words = pictures(1).expand(1000, -1, -1), captions(1).expand(1000, -1)
    rng = torch.Generator().manual_seed(1)
    cost = drawn_cost(decoder, annotations, words, rng, Fixed(0.0), samples=3, expected_share=0.5)
    by_value = (3 * 1000 - len(cost.mask)) / 2
    assert 450 < by_value < 550
    assert by_value == int(by_value)


def test_the_parts_of_a_batch_have_their_share_of_it(decoder: Decoder) -> None:
    """Whatever the coins say, the loss is the mean over captions of what each costs alone."""
    annotations, words = pictures(5), captions(5)
    mixed = drawn_cost(
        decoder,
        annotations,
        words,
        torch.Generator().manual_seed(2),
        Fixed(0.0),
        samples=2,
        expected_share=0.4,
        reward_weight=0.0,
        entropy_weight=0.7,
    )
    coins = torch.rand(5, generator=(rng := torch.Generator().manual_seed(2))) < 0.4
    assert 0 < int(coins.sum()) < 5
    by_value = cost_of(
        decoder, annotations[coins], words[coins], None, Fixed(0.0), entropy_weight=0.7
    )
    by_sample = sampled_cost(
        decoder,
        annotations[~coins],
        words[~coins],
        words_cost_of(decoder),
        partial(sample_place, rng=rng),
        Fixed(0.0),
        rule_of(samples=2, reward_weight=0.0, entropy_weight=0.7),
    )
    count = int(coins.sum())
    expected = (count * by_value.loss + (5 - count) * by_sample.loss) / 5
    assert torch.allclose(mixed.loss, expected)
    assert mixed.words == STEPS * (count + 2 * (5 - count))


def test_a_batch_has_the_mean_of_its_captions(decoder: Decoder) -> None:
    annotations, words = pictures(4), captions(4)
    path = (2, 0, 1)
    together = cost_of(decoder, annotations, words, path, Fixed(-3.0), entropy_weight=0.7)
    found = gradients_of(decoder, together.loss)
    singles = [
        gradients_of(
            decoder,
            cost_of(decoder, one, caption, path, Fixed(-3.0), entropy_weight=0.7).loss,
        )
        for one, caption in zip(annotations.split(1), words.split(1), strict=True)
    ]
    mean = {name: torch.stack([s[name] for s in singles]).mean(0) for name in found}
    assert_same(found, mean)


def test_captions_of_one_picture_share_its_coin_and_nothing_else(decoder: Decoder) -> None:
    annotations, words = pictures(2), captions(6)
    words[1, 2:] = words[4, 1:] = PADDING
    path = (2, 0, 1)
    together = cost_of(decoder, annotations, words, path, Fixed(-3.0), entropy_weight=0.7)
    each = annotations.repeat_interleave(3, dim=0)
    apart = cost_of(decoder, each, words, path, Fixed(-3.0), entropy_weight=0.7)
    assert_same(gradients_of(decoder, together.loss), gradients_of(decoder, apart.loss))

    many = pictures(1).expand(1000, -1, -1), captions(2).repeat(1000, 1)
    rng = torch.Generator().manual_seed(1)
    cost = drawn_cost(decoder, *many, rng, Fixed(0.0), samples=3, expected_share=0.5)
    by_value = (3 * 2000 - len(cost.mask)) / 2
    assert 900 < by_value < 1100
    assert by_value % 2 == 0  # both captions of a picture


def test_words_behind_the_end_change_nothing(decoder: Decoder) -> None:
    annotations, words = pictures(1), captions(1)
    short = words.clone()
    short[:, -1] = PADDING
    cost = cost_of(decoder, annotations, short, (2, 0, 1), Fixed(-3.0), entropy_weight=0.7)
    found = gradients_of(decoder, cost.loss)
    cut = cost_of(decoder, annotations, words[:, :-1], (2, 0), Fixed(-3.0), entropy_weight=0.7)
    assert_same(found, gradients_of(decoder, cut.loss))


# Baselines


def rewards_and_mask(*rewards: list[float]) -> tuple[Tensor, Tensor]:
    table = torch.tensor(rewards, dtype=torch.double)
    return table, torch.ones_like(table, dtype=torch.bool)


def test_the_moving_average_is_the_paper_s() -> None:
    baseline = Baseline("average")
    first, mask = rewards_and_mask([-4.0, -4.0], [-6.0, -6.0])
    assert (baseline.expect(first, mask, 1) == -5).all()  # nothing was seen before
    second = torch.full_like(first, -10.0)
    assert (baseline.expect(second, mask, 1) == -5).all()  # from what was seen before it
    expected = 0.9 * -5 + 0.1 * -10
    assert torch.allclose(baseline.expect(second, mask, 1), torch.tensor(expected).double())


def test_the_others_are_the_mean_of_the_other_samples() -> None:
    rewards, mask = rewards_and_mask([-1.0], [-2.0], [-6.0], [-10.0], [-20.0], [-60.0])
    found = Baseline("others").expect(rewards, mask, 3)
    assert found.squeeze(1).tolist() == [-4.0, -3.5, -1.5, -40.0, -35.0, -15.0]


def test_rewards_behind_the_end_are_not_learned() -> None:
    baseline = Baseline("average")
    rewards, mask = rewards_and_mask([-4.0, 0.0])
    mask[:, 1] = False
    assert baseline.expect(rewards, mask, 1).tolist() == [[-4.0, 0.0]]


def spread(found: list[tuple[Tensor, float]]) -> float:
    """Sum over weights of the variance of gradients that come with these probabilities."""
    gradients = torch.stack([gradient for gradient, _ in found])
    p = torch.tensor([share for _, share in found], dtype=torch.double).unsqueeze(1)
    mean = (p * gradients).sum(0)
    return float((p * (gradients - mean).square()).sum())


def exact_variance(decoder: Decoder, value: float, **rule: object) -> float:
    """Variance of the estimator with a fixed baseline, over all ways to look."""
    annotations, words = pictures(1), captions(1)
    found = []
    for path in PATHS:
        cost = cost_of(decoder, annotations, words, path, Fixed(value), **rule)
        gradients = gradients_of(decoder, cost.loss)
        p = probability_of(decoder, annotations, words, path)[0]
        found.append((torch.cat([g.flatten() for g in gradients.values()]), float(p.detach())))
    return spread(found)


def test_the_baseline_lowers_the_variance(decoder: Decoder) -> None:
    annotations, words = pictures(1), captions(1)
    expected_reward = float(bound(decoder, annotations, words, 0.0, 0.0).detach())
    assert exact_variance(decoder, expected_reward) < exact_variance(decoder, 0.0) / 2


def test_rewarding_only_what_comes_after_lowers_the_variance(decoder: Decoder) -> None:
    whole = exact_variance(decoder, 0.0, reward="caption")
    assert exact_variance(decoder, 0.0, reward="rest") < whole


def test_comparing_with_other_samples_lowers_the_variance(decoder: Decoder) -> None:
    def sampled_variance(baseline: Baseline) -> float:
        random, found = torch.Generator().manual_seed(7), []
        for _ in range(40):
            cost = drawn_cost(
                decoder, pictures(1), captions(1), random, baseline, samples=4, expected_share=0.0
            )
            gradients = gradients_of(decoder, cost.loss)
            found.append((torch.cat([g.flatten() for g in gradients.values()]), 1 / 40))
        return spread(found)

    assert sampled_variance(Baseline("others")) < sampled_variance(Fixed(0.0)) / 2


# The theory of section 4.2


def test_the_normalised_geometric_mean_is_the_softmax_of_expected_logits() -> None:
    random = torch.Generator().manual_seed(8)
    logits = torch.randn(PLACES, WORDS, dtype=torch.double, generator=random)  # of each place
    alpha = torch.softmax(torch.randn(PLACES, dtype=torch.double, generator=random), 0)
    geometric = torch.softmax(logits, 1).log().mul(alpha.unsqueeze(1)).sum(0).exp()
    assert torch.allclose(geometric / geometric.sum(), torch.softmax(alpha @ logits, 0))
