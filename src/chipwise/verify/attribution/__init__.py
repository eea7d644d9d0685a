"""Attribution: which layers a candidate's damage comes from, by swapping their precision in and out. Host side only."""
