"""papermill for Halobook notebooks: `-p name value` becomes a `%%params` cell.

    python notebooks/papermill_halobook.py IN.ipynb OUT.ipynb -p epochs 5 -p data karate

All of papermill's own flags work. papermill itself knows no Rust kernel and refuses `-p`; without this file,
`HALOBOOK_PARAMS='epochs = 5' papermill IN.ipynb OUT.ipynb` gives the same values to the notebook's own
`%%params` cell. The cell that papermill adds stands behind the one tagged `parameters`.
"""

import json

from papermill.cli import papermill
from papermill.translators import Translator, papermill_translators


class Params(Translator):
    """Values as the body of a `%%params` cell writes them."""

    @classmethod
    def codify(cls, parameters, comment="Parameters"):
        pairs = (f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in parameters.items())
        return "\n".join([f"// {comment}", "%%params", *pairs])


papermill_translators.register("halobook", Params)

if __name__ == "__main__":
    papermill()
