"""On-policy distillation and generalised knowledge distillation."""
