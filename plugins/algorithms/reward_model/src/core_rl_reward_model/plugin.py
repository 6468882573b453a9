"""Bradley-Terry reward models, and the trained model as a reward."""
