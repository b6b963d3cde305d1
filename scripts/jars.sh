# shellcheck shell=bash
# A function for scripts that run Java programs with libraries from Maven. To be sourced.

# jars_of POM DIRECTORY: fetches the libraries that a POM names, unless they are there and newer than it.
jars_of() {
    [ ! "$2/complete" -nt "$1" ] || return 0
    rm -rf "$2"
    mvn -q -B -f "$1" dependency:copy-dependencies -DoutputDirectory="$2" >&2 </dev/null || {
        echo "java: Maven could not fetch what $1 names" >&2
        return 1
    }
    touch "$2/complete"
}
