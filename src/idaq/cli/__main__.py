"""`python -m idaq.cli`."""

import sys

from idaq.cli.program import main

sys.exit(main())
