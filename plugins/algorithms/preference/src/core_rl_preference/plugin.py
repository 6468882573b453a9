"""DPO and its variants, KTO, ORPO, SimPO, CPO."""
