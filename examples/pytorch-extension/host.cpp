// Host code, whose object is on the device-link line as well.
extern "C" const char *plugin_name() { return "plugin"; }
