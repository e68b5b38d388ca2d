#!/bin/sh
# Installs what runs the playbooks of baremetal.llm on a machine without internet. Nothing outside of FOLDER is changed, and no network is used.
#
#   sh install.sh [FOLDER]                     FOLDER is ~/baremetal-llm unless it is named
#   PYTHON=/path/to/python3.12 sh install.sh   with this Python instead of the newest one on PATH that fits
set -eu
unset PYTHONPATH PYTHONHOME CDPATH

KIT=$(cd "$(dirname "$0")" && pwd)
FOLDER=${1:-$HOME/baremetal-llm}
case $FOLDER in
/*) ;;
*) FOLDER=$PWD/$FOLDER ;;
esac

case ${LC_ALL:-${LC_MESSAGES:-${LANG:-}}} in
zh*) CHINESE=yes ;;
*) CHINESE=no ;;
esac

# The text in English and in Chinese.
say() { if [ "$CHINESE" = yes ]; then echo "$2"; else echo "$1"; fi; }
stop() {
    say "$1" "$2" >&2
    exit 1
}

# The version of a Python that the kit holds wheels for and that can make environments; nothing otherwise.
version_of() {
    "$1" -c 'import sys, venv; print("%d.%d" % sys.version_info[:2])' 2>/dev/null | grep -x -E '3\.(11|12|13)' || true
}

[ "$(uname -s) $(uname -m)" = "Linux x86_64" ] ||
    stop "This kit is for Linux on x86_64. This machine is $(uname -s) on $(uname -m)." \
        "此安装包适用于 x86_64 上的 Linux。本机是 $(uname -m) 上的 $(uname -s)。"

cd "$KIT"
BAD=$(sha256sum --check --quiet SHA256SUMS 2>/dev/null) ||
    stop "The kit is damaged. Copy it again and unpack it anew. These files are missing or are not what SHA256SUMS says:
${BAD:-SHA256SUMS}" "安装包已损坏，请重新复制并解压。以下文件缺失或与 SHA256SUMS 不符：
${BAD:-SHA256SUMS}"

FOUND=
for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
    VERSION=$(version_of "$candidate")
    if [ -n "$VERSION" ]; then
        FOUND=$(command -v "$candidate")
        break
    fi
done
[ -n "$FOUND" ] ||
    stop "Python 3.11, 3.12 or 3.13 is needed, and none was found as ${PYTHON:-python3.13, python3.12, python3.11 or python3} (python3 is $(python3 --version 2>&1 || true)).
Install one from the distribution (Ubuntu 22.04: python3.11; RHEL 8 and 9: python3.12), or name it: PYTHON=/path/to/python3.12 sh install.sh" \
        "需要 Python 3.11、3.12 或 3.13，但没有找到（找过 ${PYTHON:-python3.13、python3.12、python3.11、python3}；python3 是 $(python3 --version 2>&1 || true)）。
请从发行版安装（Ubuntu 22.04：python3.11；RHEL 8、9：python3.12），或指明路径：PYTHON=/path/to/python3.12 sh install.sh"

enter() {
    say "To put the programs on PATH:  . $FOLDER/bin/activate" "把程序加入 PATH：  . $FOLDER/bin/activate"
    say "Then, for instance:           ansible-playbook baremetal.llm.discover" "然后例如：        ansible-playbook baremetal.llm.discover"
}

# The checksums are there when all of the kit is; an empty file says that its installation began here.
if cmp -s SHA256SUMS "$FOLDER/kit.sha256" && [ -x "$FOLDER/bin/ansible-playbook" ]; then
    say "$FOLDER holds this kit already; nothing is to be done." "$FOLDER 中已安装此安装包，无需操作。"
    enter
    exit 0
fi
if [ -e "$FOLDER" ] && ! [ -e "$FOLDER/kit.sha256" ] && [ -n "$(ls -A "$FOLDER")" ]; then
    stop "$FOLDER holds something else. Remove it, or name another folder: sh install.sh FOLDER" \
        "$FOLDER 中有其他内容。请将其删除，或指定另一个目录：sh install.sh 目录"
fi

say "installing with $FOUND ($VERSION) into $FOLDER ..." "正在用 $FOUND（$VERSION）安装到 $FOLDER ……"
# Without pip, as some distributions leave out what brings it: the kit's own is started from its wheel.
"$FOUND" -m venv --clear --without-pip "$FOLDER"
: >"$FOLDER/kit.sha256"
set -- wheels/pip-*.whl
PIP_CONFIG_FILE=/dev/null "$FOLDER/bin/python" "$1/pip" --isolated install --quiet --no-index --find-links wheels \
    --no-cache-dir --no-compile --disable-pip-version-check --no-warn-script-location --requirement requirements.txt
SITE=$("$FOLDER/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
ANSIBLE_COLLECTIONS_PATH=$SITE ANSIBLE_NOCOLOR=1 "$FOLDER/bin/ansible-galaxy" collection install --offline --no-deps --force \
    --collections-path "$SITE" baremetal-llm-*.tar.gz >/dev/null
cp SHA256SUMS "$FOLDER/kit.sha256"

OLDER=$HOME/.ansible/collections/ansible_collections/baremetal/llm
if [ -e "$OLDER" ]; then
    say "Another copy of the collection lies in $OLDER, and Ansible takes that one first: remove it." \
        "$OLDER 中还有本集合的另一份，Ansible 会优先使用它：请将其删除。"
fi
say "Done." "完成。"
enter
