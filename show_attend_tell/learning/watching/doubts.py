"""Reasons not to trust the result of a run, said when it begins."""

from show_attend_tell.data.batches import Captions
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import counted
from show_attend_tell.learning.recipe import VocabularySection

FEW = 100  # dev pictures; with fewer, BLEU-4 moves by several points by chance
MANY_UNKNOWN = 0.1  # of the words in the training captions; on Flickr8k 0.03 with minimum_count 4


def doubts(captions: Captions, dev_pictures: int, words: VocabularySection) -> list[str]:
    """Sentences about too few dev pictures and too small a vocabulary; none if all is well.

    Parameters
    ----------
    captions
        Those to be trained on.
    """
    found = []
    if dev_pictures < FEW:
        found.append(f"{counted(dev_pictures, 'dev picture')}: a score of so few says little")
    said = [word for caption in captions.words for word in caption[:-1]]
    unknown = said.count(Vocabulary.UNKNOWN) / len(said)
    if unknown > MANY_UNKNOWN:
        found.append(
            f"{100 * unknown:.0f} % of the words in the training captions are not in the "
            "vocabulary, so the model cannot learn them; lower vocabulary.minimum_count "
            f"({words.minimum_count}) or raise vocabulary.size ({words.size})"
        )
    return found
