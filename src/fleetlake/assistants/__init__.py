"""Answers to assistants, by the Model Context Protocol; each says what it rests on."""
