# find_package(DlinkShim) in config mode; -DDlinkShim_DIR=<this directory>, or installed as <prefix>/lib/cmake/DlinkShim.
include("${CMAKE_CURRENT_LIST_DIR}/DlinkShim.cmake")
