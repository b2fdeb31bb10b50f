"""The dashboard over campaigns (results/dashboard)."""
