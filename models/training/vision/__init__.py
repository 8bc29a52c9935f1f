"""Image input for the embedded models: generated images, the words for what they show, and the encoder that learns to
name it."""
