"""Cases: the inputs that the suite drives subjects with, and the public faults it must see."""
