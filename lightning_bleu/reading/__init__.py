"""The inputs of a call: text or ids, recognized, checked, and cleaned."""
