"""Image captioning with visual attention, after Show, Attend and Tell (Xu et al. 2015)."""

__version__ = "0.1.0"
