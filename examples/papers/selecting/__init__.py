"""The parts of selection and bandit."""
