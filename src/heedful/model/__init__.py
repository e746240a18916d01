"""A model behind a few questions: loading, attention, masking, inference."""
