"""The small policy: tokenizer, Qwen3 model with a copying start, pretraining recipe, shipped weights (``base``)."""
