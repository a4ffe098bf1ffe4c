#!/bin/sh
# Says which packages are missing for the proofs; installs nothing.
missing=""
command -v coqc > /dev/null && command -v coqchk > /dev/null || missing="coq"
if [ -z "$missing" ]; then
    library=$(coqc -where)/user-contrib/mathcomp/algebra/ssrnum.vo
    [ -e "$library" ] || missing="libcoq-mathcomp-algebra"
else
    missing="$missing libcoq-mathcomp-algebra"
fi
if command -v ocamlfind > /dev/null && command -v ocamlopt > /dev/null; then
    ocamlfind query zarith > /dev/null 2>&1 || missing="$missing libzarith-ocaml-dev"
else
    missing="$missing ocaml-findlib ocaml-nox libzarith-ocaml-dev"
fi
if [ -n "$missing" ]; then
    echo "make proofs needs$(printf ' %s' $missing). On Debian 12 (Coq 8.16, MathComp 1.15):" >&2
    echo "    apt-get install --no-install-recommends $missing" >&2
    exit 1
fi
