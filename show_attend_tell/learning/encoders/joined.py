"""Several encoders on the same input, their vectors concatenated at each place."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from show_attend_tell.errors import UserError
from show_attend_tell.learning.encoders.base import Encoder, UpperStages

PLUS = "+"  # between their names


class Joined(Encoder):
    """Encoders with one grid and one preprocessing; their depths add up."""

    def __init__(self, members: Sequence[Encoder]) -> None:
        first = members[0]
        name = PLUS.join(member.name for member in members)
        for member in members[1:]:
            if (member.grid, member.preprocessing) != (first.grid, first.preprocessing):
                raise UserError(
                    "request.encoder",
                    f"{name}: expected encoders with the same grid and preprocessing, found "
                    f"{member.name} to differ from {first.name}; join those "
                    "of one family, such as efficientnet-lite1+efficientnet-lite2",
                )
        depth = sum(member.depth for member in members)
        super().__init__(name, first.preprocessing, side=first.grid[0], depth=depth)
        self.members = nn.ModuleList(members)
        self.weights_hash = PLUS.join(member.weights_hash for member in members)

    def feature_map(self, x: Tensor) -> Tensor:
        """The maps of all, concatenated: (batch, D₁ + D₂ + …, rows, columns)."""
        return torch.cat([member.feature_map(x) for member in self._encoders()], dim=1)

    def split(self, fine_tuned: int) -> tuple[Encoder, UpperStages]:
        """Both parts of each encoder, joined."""
        lowers, uppers = zip(
            *(member.split(fine_tuned) for member in self._encoders()), strict=True
        )
        lower = Joined(lowers)
        stages = _SideBySide([upper.stages for upper in uppers], [one.depth for one in lowers])
        return lower, UpperStages(stages, lower.grid[0])

    def _encoders(self) -> list[Encoder]:
        return [member for member in self.members if isinstance(member, Encoder)]


class _SideBySide(nn.Module):
    """Applies each part to its share of the channels."""

    def __init__(self, parts: Sequence[nn.Module], depths: Sequence[int]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.depths = list(depths)

    def forward(self, x: Tensor) -> Tensor:
        shares = torch.split(x, self.depths, dim=1)
        return torch.cat([part(share) for part, share in zip(self.parts, shares, strict=True)], 1)
