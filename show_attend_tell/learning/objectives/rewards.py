"""Learning from the scores of drawn captions: self-critical training (Rennie et al. 2017).

The paper's objective is the likelihood of what people said. Here some or all of it gives way to the
expected score r of what the model says itself, whose gradient is estimated, for N captions w̃ drawn
from it, by

    ∂ E[r] ≈ 1/N Σ (r(w̃) − b) ∂ log p(w̃ | a).

The end is a word like any other for the scores: what stops in the middle lacks the n-grams that
close the references, so that captions do not learn to end in "in a".

Captions are drawn without dropout and taught with it, as all captions are; without dropout the
estimator's mean is the gradient itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from show_attend_tell.data.batches import PADDING
from show_attend_tell.data.vocabulary import Vocabulary, tokenise
from show_attend_tell.learning.model.decoder import State, Teachable
from show_attend_tell.learning.objectives.likelihood import Cost, likelihood
from show_attend_tell.learning.recipe import RewardSection
from show_attend_tell.scoring.metrics.bleu import bleu_rows, smoothed_bleu
from show_attend_tell.scoring.metrics.cider import DocumentFrequencies, cider_rows

Judge = Callable[[Tensor], Tensor]  # captions (rows, steps) → rewards (rows,)


class CaptionReward:
    """What captions are worth: CIDEr-D and smoothed BLEU-4 against their pictures' references.

    References keep the words that the vocabulary has not, so the unknown word is never right.

    Parameters
    ----------
    references
        What people said of each training picture, by its row of the store. How rare an n-gram is,
        is counted here.
    """

    def __init__(
        self,
        references: Mapping[int, Sequence[str]],
        vocabulary: Vocabulary,
        rule: RewardSection,
    ) -> None:
        self.words, self.rule = vocabulary.words, rule
        end = self.words[Vocabulary.END]
        self.references = {
            row: [
                " ".join([*tokenise(caption, punctuation=vocabulary.punctuation), end])
                for caption in captions
            ]
            for row, captions in references.items()
        }
        self.frequencies = DocumentFrequencies.of(self.references.values(), "train")

    def __call__(self, rows: Sequence[int], captions: Tensor) -> Tensor:
        """Rewards (captions,) of captions (captions, steps), those of a row side by side."""
        texts = [
            " ".join(self.words[word] for word in caption if word != PADDING)
            for caption in captions.tolist()
        ]
        of_each = len(texts) // len(rows)
        references = [self.references[row] for row in rows for _ in range(of_each)]
        cider = cider_rows(texts, references, self.frequencies)[:, 0]
        bleu = smoothed_bleu(bleu_rows(texts, references))
        return torch.from_numpy(self.rule.cider * cider + self.rule.bleu * bleu)


@torch.no_grad()
def draw_captions(
    decoder: Teachable,
    annotations: Tensor,
    of_each: int,
    max_words: int,
    rng: torch.Generator,
) -> Tensor:
    """Captions as the decoder draws them itself, those of a picture side by side.

    Parameters
    ----------
    annotations
        (pictures, L, D).
    of_each
        Captions of each picture.
    max_words
        A caption that has not ended by then is cut, without an end word.
    dice
        What the words are drawn with.

    Returns
    -------
    (pictures × of_each, steps), padded with PADDING.
    """
    places, state = decoder.start(annotations)
    state = State(*(part.repeat_interleave(of_each, dim=0) for part in state))
    words = torch.full((len(state.h),), decoder.words)
    is_told = torch.zeros_like(words, dtype=torch.bool)
    captions: list[Tensor] = []
    while len(captions) < max_words and not is_told.all():
        alpha, gate = decoder.look(places, state)
        state, logits = decoder.advance(places, state, alpha, gate, words)
        words = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
        captions.append(words.masked_fill(is_told, PADDING))
        is_told |= words == Vocabulary.END
    return torch.stack(captions, 1)


def advantages(rewards: Tensor, samples: int) -> Tensor:
    """Rewards (pictures × samples,) less the mean of the picture's other samples."""
    of_picture = rewards.view(-1, samples)
    others = (of_picture.sum(1, keepdim=True) - of_picture) / (samples - 1)
    return (of_picture - others).flatten()


def caption_loss(
    decoder: Teachable,
    annotations: Tensor,
    captions: Tensor,
    advantage: Tensor,
    dropout: torch.Generator | None = None,
) -> Tensor:
    """−advantage · log p of whole captions, the mean over them.

    captions: (rows, steps); advantage: (rows,).
    """
    readout = decoder.teach(annotations, captions, dropout).readout
    row, step = (captions != PADDING).nonzero(as_tuple=True)
    shares = advantage.to(readout.dtype)[row] / len(captions)
    loss, _ = likelihood(
        readout[row, step], *decoder.softmax_layer(), captions[row, step], shares, 0.0
    )
    return loss


def rewarded_cost(
    cost: Cost,
    decoder: Teachable,
    annotations: Tensor,
    judge: Judge,
    rule: RewardSection,
    max_words: int,
    rng: torch.Generator,
    dropout: torch.Generator | None = None,
) -> Cost:
    """Give a share of the objective to the rewards of drawn captions.

    Parameters
    ----------
    cost
        Of the true captions: the rest of the objective.
    annotations
        (pictures, L, D).
    judge
        What captions of these pictures are worth, any number for each.
    dice, dropout
        What the words, and what the dropped numbers, are drawn from.
    """
    captions = draw_captions(decoder, annotations, rule.samples, max_words, rng)
    rewards = judge(captions)
    advantage = advantages(rewards, rule.samples)
    loss = caption_loss(decoder, annotations, captions, advantage, dropout)
    return replace(
        cost,
        loss=rule.weight * loss + (1 - rule.weight) * cost.loss,
        reward=float(rewards.mean()),
    )
