"""GSPO, GSPO-token and LUSPO: ratios of whole sequences."""
