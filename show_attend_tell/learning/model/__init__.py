"""The model: attention, decoder, rivals, and what search asks of them."""
