"""The decoder as a textbook writes it: the oracle of the tests and the rival of the benchmark.

Every step projects the annotations anew, applies tanh, computes logits and leaves the gradients to
autograd. It borrows the parameters of our `Decoder`, so both must give the same numbers.
"""

import torch
from torch import Tensor
from torch.nn import functional

from show_attend_tell.learning.model.decoder import Decoder


def textbook_loss(
    decoder: Decoder, annotations: Tensor, captions: Tensor, *, double_stochastic: float
) -> tuple[Tensor, Tensor]:
    """Loss per caption and alphas (batch, steps, L) of equally long captions, without dropout."""
    a = decoder.norm(decoder.narrow(annotations))
    attention, initial = decoder.attention, decoder.initial
    mean = a.mean(dim=1)
    h = torch.tanh(initial.h(torch.relu(initial.hidden_h(mean))))
    c = torch.tanh(initial.c(torch.relu((initial.hidden_c or initial.hidden_h)(mean))))
    word = torch.full_like(captions[:, 0], decoder.words)
    nats, alphas = [], []
    for target in captions.unbind(1):
        hidden = torch.tanh(attention.annotation(a) + attention.state(h).unsqueeze(1))
        alpha = torch.softmax(hidden @ attention.score, dim=1)
        z = (alpha.unsqueeze(2) * a).sum(dim=1)
        if attention.gate is not None:
            z = torch.sigmoid(attention.gate(h)) * z
        x = decoder.embedding(word)
        gates = decoder.word_gates(x) + decoder.recurrent_gates(torch.cat([h, z], dim=1))
        i, f, o, g = gates.chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        readout = decoder.squash(x + decoder.readout_state(h) + decoder.readout_context(z))
        logits = functional.linear(readout, *decoder.softmax_layer())
        nats.append(functional.cross_entropy(logits, target, reduction="none"))
        alphas.append(alpha)
        word = target
    looked = torch.stack(alphas, dim=1)
    penalty = (1 - looked.sum(dim=1)).square().sum(dim=1)
    return (torch.stack(nats, 1).sum(dim=1) + double_stochastic * penalty).mean(), looked
