"""Scheduled sampling: which words are the model's own, and that they are what it goes on from."""

import pytest
import torch
from torch import Tensor

from show_attend_tell.learning.decoder import PADDING, Decoder
from show_attend_tell.learning.own_words import with_own_words
from show_attend_tell.learning.recipe import ModelSection

WORDS = 9


@pytest.fixture
def decoder() -> Decoder:
    torch.manual_seed(3)
    return Decoder(ModelSection(hidden=7, word=5, attention_width=4), 6, WORDS).double()


def world(captions: int = 6) -> tuple[Tensor, Tensor]:
    torch.manual_seed(4)
    annotations = torch.randn(captions, 5, 6, dtype=torch.double)
    words = torch.randint(0, WORDS, (captions, 4))
    words[0, 3] = PADDING
    return annotations, words


def dice() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def test_a_share_of_nothing_leaves_every_word(decoder: Decoder) -> None:
    annotations, captions = world()
    assert torch.equal(with_own_words(decoder, annotations, captions, 0.0, dice()), captions)


def test_a_share_of_all_leaves_the_decoder_s_words_alone(decoder: Decoder) -> None:
    """Each is the likeliest after the true words before it, as a loop over steps has it."""
    annotations, captions = world()
    found = with_own_words(decoder, annotations, captions, 1.0, dice())
    places, state = decoder.start(annotations)
    before = torch.full((len(captions),), WORDS)
    for step in range(captions.shape[1]):
        alpha, gate = decoder.look(places, state)
        state, logits = decoder.advance(places, state, alpha, gate, before)
        told = captions[:, step] != PADDING
        assert torch.equal(found[told, step], logits.argmax(1)[told])
        before = captions[:, step].clamp(min=0)
    assert found[0, 3] == PADDING
    assert not torch.equal(found, captions)


def test_the_share_is_that_of_the_words(decoder: Decoder) -> None:
    annotations, captions = world(500)
    own = with_own_words(decoder, annotations, captions, 1.0, dice())
    mixed = with_own_words(decoder, annotations, captions, 0.3, dice())
    assert ((mixed == captions) | (mixed == own)).all()
    differ = own != captions
    replaced = (mixed == own)[differ].double().mean()
    assert 0.25 < float(replaced) < 0.35


def test_a_lesson_goes_on_from_the_words_it_is_given_and_from_no_later_ones(
    decoder: Decoder,
) -> None:
    """What lets the mixture be taught: the word told in a step has no say in that step."""
    annotations, captions = world()
    others = captions.clone()
    others[:, 2] = (others[:, 2] + 1) % WORDS
    one, two = (decoder.teach(annotations, words).readout for words in (captions, others))
    assert torch.equal(one[:, :3], two[:, :3])
    assert not torch.equal(one[1:, 3], two[1:, 3])
