"""From a model to captions; no PyTorch here."""
