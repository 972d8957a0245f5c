"""The LSTM decoder: equations 1–3, the initial state, and the deep output layer (equation 7).

Sizes, as in the paper: L places of depth D, K words, words embedded in m, states of width n.
Bias terms, which the paper leaves out for readability, are there. The first step has no previous
word: its embedding is zero, as in the authors' code.

What does not depend on the recurrence is computed once per batch: the words' share of the gates
before the loop, the readout and the logits after it. Captions that have ended leave the loop.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from show_attend_tell.data.batches import PADDING
from show_attend_tell.learning.model.attention import Attention, EvenAttention, Memory
from show_attend_tell.learning.model.shared_product import SharedGradient, shared_product
from show_attend_tell.learning.recipe import ModelSection


def identity(x: Tensor) -> Tensor:
    """Return x."""
    return x


def previous_words(captions: Tensor, none: int) -> Tensor:
    """The word before each word of captions (batch, steps), `none` before the first."""
    first = torch.full_like(captions[:, :1], none)
    return torch.cat([first, captions[:, :-1]], dim=1).clamp(min=0)  # padding becomes any word


class State(NamedTuple):
    """Hidden state h and cell state c of the LSTM, each (rows, n)."""

    h: Tensor
    c: Tensor


@dataclass
class DecoderOutput:
    """What `CaptionDecoder.forward` returns; values behind a caption's end mean nothing."""

    readout: Tensor  # (batch, steps, m); `softmax_layer` turns it into logits
    alphas: Tensor  # (batch, steps, L)
    weights: Tensor  # (batch, steps, L), what the context used: alpha itself, or a sampled place
    gates: Tensor  # (batch, steps)


class CaptionDecoder(nn.Module, ABC):
    """The interface that trainer and search use; the baselines without attention have it too.

    `forward` equals a loop of `look` and `advance`, but may compute for all steps at once what does
    not depend on the recurrence.
    """

    __call__: Callable[..., DecoderOutput]  # `forward`, with its type

    words: int  # K

    @abstractmethod
    def softmax_layer(self) -> tuple[Tensor, Tensor]:
        """Weight (K, m) and bias (K) of the logits, applied to a readout."""

    def encode(self, features: Tensor) -> Tensor:
        """Annotations (pictures, L, D) of stored features; equal unless fine-tuned."""
        return features

    @abstractmethod
    def start(
        self, annotations: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Memory, State]:
        """Memory and state before the first word. annotations: (pictures, L, D)."""

    @abstractmethod
    def look(self, memory: Memory, state: State) -> tuple[Tensor, Tensor]:
        """Where to look for the next word: alpha (rows, L) and gate (rows,)."""

    @abstractmethod
    def advance(
        self, memory: Memory, state: State, weights: Tensor, gate: Tensor, words: Tensor
    ) -> tuple[State, Tensor]:
        """One step: the next state, and logits (rows, K) of the word after `words` (rows,)."""

    @abstractmethod
    def forward(
        self,
        annotations: Tensor,
        captions: Tensor,
        generator: torch.Generator | None = None,
        choose: Callable[[Tensor], Tensor] = identity,
    ) -> DecoderOutput:
        """Teacher forcing: predict each word of given captions from the true words before it."""


class Decoder(CaptionDecoder):
    """Generates a caption word by word, looking at a picture's annotation vectors."""

    def __init__(
        self, recipe: ModelSection, depth: int, words: int, upper: nn.Module | None = None
    ) -> None:
        """`upper`: the fine-tuned stages, where features are the map below them."""
        super().__init__()
        width = recipe.annotation_width or depth
        self.narrow = nn.Linear(depth, width) if recipe.annotation_width else nn.Identity()
        self.norm = nn.LayerNorm(width) if recipe.annotation_norm == "layer" else nn.Identity()
        self.attention = (
            EvenAttention(recipe.hidden, recipe.gate)
            if recipe.attention == "mean"
            else Attention(width, recipe.hidden, recipe.attention_width, recipe.gate)
        )
        # Row K stands for "no word yet"; as padding it stays zero and gets no gradient.
        padding = words if recipe.start == "zero" else None
        self.embedding = nn.Embedding(words + 1, recipe.word, padding_idx=padding)
        self.initial = InitialState(width, recipe.hidden, recipe.initial == "shared")
        # T of equation 1 in two parts: the share of E y, and that of h and ẑ.
        self.word_gates = nn.Linear(recipe.word, 4 * recipe.hidden)
        self.recurrent_gates = nn.Linear(recipe.hidden + width, 4 * recipe.hidden, bias=False)
        self.readout_state = nn.Linear(recipe.hidden, recipe.word)  # L_h
        self.readout_context = nn.Linear(width, recipe.word)  # L_z
        self.output = nn.Linear(recipe.word, words)  # L_o
        self.squash = torch.tanh if recipe.readout == "tanh" else identity
        self.dropout = recipe.dropout
        self.words = words
        self._initialise(hidden=recipe.hidden, is_scaled=recipe.annotation_norm == "layer")
        self.upper = upper or nn.Identity()

    def _initialise(self, hidden: int, is_scaled: bool) -> None:
        """Xavier and orthogonal; N(0, 0.01), as the authors', for what reads raw annotations.

        Their scale depends on the network: VGG's reach 500, and would saturate most tanhs from the
        first step on.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for gate in self.recurrent_gates.weight.data.chunk(4):
            nn.init.orthogonal_(gate[:, :hidden])
        if not is_scaled:
            for weight in self._readers_of_annotations(hidden):
                nn.init.normal_(weight, std=0.01)
        nn.init.normal_(self.embedding.weight, std=0.1)
        if self.embedding.padding_idx is not None:
            nn.init.zeros_(self.embedding.weight.data[self.embedding.padding_idx])

    def _readers_of_annotations(self, hidden: int) -> list[Tensor]:
        if isinstance(self.narrow, nn.Linear):
            return [self.narrow.weight.data]
        readers = (*self.attention.readers, *self.initial.readers)
        return [
            *(module.weight.data for module in (*readers, self.readout_context)),
            self.recurrent_gates.weight.data[:, hidden:],
        ]

    def softmax_layer(self) -> tuple[Tensor, Tensor]:
        """L_o of equation 7 (K, m), and its bias (K)."""
        return self.output.weight, self.output.bias

    def encode(self, features: Tensor) -> Tensor:
        """Annotations (pictures, L, D) of stored features, through the fine-tuned stages if any."""
        annotations: Tensor = self.upper(features)
        return annotations

    def start(
        self, annotations: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Memory, State]:
        """Memory and state before the first word. annotations: (pictures, L, D)."""
        a = self.norm(self.narrow(annotations))
        keep = Dropout(self.dropout, generator)
        return self.attention.prepare(a), self.initial(a.mean(dim=1), keep)

    def look(self, memory: Memory, state: State) -> tuple[Tensor, Tensor]:
        """Where to look for the next word: alpha (rows, L) and gate (rows,)."""
        return self.attention.look(memory, state.h)

    def advance(
        self,
        memory: Memory,
        state: State,
        weights: Tensor,
        gate: Tensor,
        words: Tensor,
        word_gates: Tensor | None = None,
    ) -> tuple[State, Tensor]:
        """One step: the next state, and logits (rows, K) of the word after `words` (rows,).

        `word_gates` (K + 1, 4n): every word's share of the gates, if already computed.
        """
        x = self.embedding(words)
        share = self.word_gates(x) if word_gates is None else word_gates[words]
        z = self.attention.context(memory, weights, gate)
        state = self._step(state, share, z, SharedGradient())
        readout = self._readout(x, state.h, z, Dropout(0.0, None))
        return state, nn.functional.linear(readout, *self.softmax_layer())

    def forward(
        self,
        annotations: Tensor,
        captions: Tensor,
        generator: torch.Generator | None = None,
        choose: Callable[[Tensor], Tensor] = identity,
    ) -> DecoderOutput:
        """Teacher forcing: predict each word of given captions from the true words before it.

        Parameters
        ----------
        annotations
            (pictures, L, D), one picture a caption, or one for several captions side by side.
        captions
            (batch, steps) word indices, each closed by its end word and padded with PADDING.
        generator
            For dropout; None for no dropout.
        choose
            The weights of the context in each step, given alpha: (batch, L) → (batch, L). Soft
            attention uses alpha itself.
        """
        memory, state = self.start(annotations, generator)
        pictures, of_each = len(annotations), len(captions) // len(annotations)
        state = State(*(part.repeat_interleave(of_each, dim=0) for part in state))
        mask = captions != PADDING  # (B, T)
        step, row = mask.t().nonzero(as_tuple=True)  # of every word, the first words first
        counts = [count for count in mask.sum(dim=0).tolist() if count]
        # Each word occurs about three times in a batch: its share of the gates is computed once.
        words = previous_words(captions, self.words)[row, step]
        before, which = words.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        embedded = self.embedding(before)
        x, share_of_gates = (
            nn.functional.embedding(which, table) for table in (embedded, self.word_gates(embedded))
        )  # (words, m), (words, 4n)
        shares, rows_of = torch.split(share_of_gates, counts), torch.split(row, counts)
        gradient = SharedGradient()
        steps = []
        for share, rows in zip(shares, rows_of, strict=True):
            # Attention needs equally many rows per picture: those up to the last unfinished one.
            width = int((rows % of_each).max()) + 1
            going = rows // of_each * width + rows % of_each  # unfinished captions among them
            h, c = (
                part.view(pictures, -1, part.shape[1])[:, :width].flatten(0, 1) for part in state
            )
            alpha, gate = self.look(memory, State(h, c))
            weights = choose(alpha)
            z = self.attention.context(memory, weights, gate)
            of_going = [part.index_select(0, going) for part in (h, c, z, alpha, weights, gate)]
            now = self._step(State(*of_going[:2]), share, of_going[2], gradient)
            steps.append((now.h, *of_going[2:]))
            state = State(*(torch.zeros_like(h).index_copy(0, going, part) for part in now))
        h, z, alphas, weights, gates = (torch.cat(parts) for parts in zip(*steps, strict=True))
        readout = self._readout(x, h, z, Dropout(self.dropout, generator))

        def laid_out(of_words: Tensor) -> Tensor:
            whole = of_words.new_zeros(*captions.shape, *of_words.shape[1:])
            return whole.index_put((row, step), of_words)

        return DecoderOutput(*map(laid_out, (readout, alphas, weights, gates)))

    def _step(self, state: State, word_gates: Tensor, z: Tensor, gradient: SharedGradient) -> State:
        both = torch.cat([state.h, z], dim=1)  # (rows, n + D)
        total = word_gates + shared_product(both, self.recurrent_gates.weight.t(), gradient)
        i, f, o, g = total.chunk(4, dim=1)  # equation 1
        c = torch.sigmoid(f) * state.c + torch.sigmoid(i) * torch.tanh(g)  # equation 2
        h = torch.sigmoid(o) * torch.tanh(c)  # equation 3
        return State(h, c)

    def _readout(self, x: Tensor, h: Tensor, z: Tensor, keep: "Dropout") -> Tensor:
        """E y + L_h h + L_z ẑ of equation 7; `squash`: the authors' tanh, or identity."""
        return keep(self.squash(x + self.readout_state(keep(h)) + self.readout_context(z)))


class InitialState(nn.Module):
    """h₀ and c₀ by two MLPs from the mean annotation vector; `shared`: one hidden layer."""

    def __init__(self, width: int, hidden: int, shared: bool) -> None:
        super().__init__()
        self.hidden_h = nn.Linear(width, hidden)
        self.hidden_c = None if shared else nn.Linear(width, hidden)
        self.h = nn.Linear(hidden, hidden)
        self.c = nn.Linear(hidden, hidden)

    @property
    def readers(self) -> tuple[nn.Linear, ...]:
        """The layers that read annotations: the one of h₀, and that of c₀ where it has its own."""
        return (self.hidden_h, self.hidden_c) if self.hidden_c else (self.hidden_h,)

    def forward(self, mean: Tensor, keep: "Dropout") -> State:
        """Mean: (rows, D)."""
        of_h, of_c = self.readers[0], self.readers[-1]
        h = torch.tanh(self.h(keep(torch.relu(of_h(mean)))))
        c = torch.tanh(self.c(keep(torch.relu(of_c(mean)))))
        return State(h, c)


@dataclass(frozen=True)
class Dropout:
    """Dropout from a given generator, so that a run can be repeated bit for bit."""

    rate: float
    generator: torch.Generator | None

    def __call__(self, x: Tensor) -> Tensor:
        """Set a share of x to zero and scale the rest up; x itself when there is no generator."""
        if self.generator is None or self.rate == 0:
            return x
        kept = torch.empty_like(x).bernoulli_(1 - self.rate, generator=self.generator)
        return x * kept.div_(1 - self.rate)
