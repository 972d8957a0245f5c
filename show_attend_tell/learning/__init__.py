"""Training the model; the only part that imports PyTorch."""
