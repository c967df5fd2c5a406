"""Selection mechanisms: scores and sensitivities in, the position of one candidate out."""
