"""What the embedded models see: pictures made by a program, what they show in words, and the tower that learns to say it."""
