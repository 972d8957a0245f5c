"""The report of a trained model: plain facts in, one HTML page out."""
