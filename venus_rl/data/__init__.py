"""Training data: reading conversations, generating them with the oracle, tokenising them for supervised fine-tuning."""
