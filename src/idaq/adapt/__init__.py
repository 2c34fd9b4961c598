"""Online adaptation: methods, the uncertainties they judge by, and the searches they try with."""
