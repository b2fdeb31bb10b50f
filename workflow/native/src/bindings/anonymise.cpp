#include "bindings/anonymise.hpp"

#include <nanobind/stl/string.h>

#include "anonymise/file.hpp"
#include "bindings/file_facts.hpp"
#include "dissect/vendors.hpp"

namespace nb = nanobind;

namespace acapella {
namespace {

using namespace anonymise;

Key key_of(const nb::bytes& key) {
    if (key.size() != kKey) throw nb::value_error("a key has 32 bytes");
    return Key(static_cast<const std::byte*>(key.data()), kKey);
}

Macs macs_of(const std::string& name) {
    if (name == "replace") return Macs::replace;
    if (name == "blank") return Macs::blank;
    throw nb::value_error("macs: replace or blank");
}

// Everything arrives checked: acapella_core.anonymise is the only caller.
nb::dict anonymise_capture(const std::string& path, int descriptor, const nb::bytes& key,
                           const std::string& macs, const Vendors* vendors) {
    const Key octets = key_of(key);
    const Macs how = macs_of(macs);
    const FileCounts counts = [&] {
        const nb::gil_scoped_release unlocked;
        return anonymise_file(path, descriptor, octets, how, vendors, [] {
            const nb::gil_scoped_acquire locked;  // lets Ctrl-C through
            if (PyErr_CheckSignals() != 0) throw nb::python_error();
        });
    }();
    nb::dict result = file_dict(counts.facts);
    result["frames"] = counts.frames;
    result["wire_bytes"] = counts.wire_bytes;
    result["captured_bytes"] = counts.captured_bytes;
    result["kept_bytes"] = counts.kept_bytes;
    result["cut_frames"] = counts.cut_frames;
    result["empty_frames"] = counts.empty_frames;
    result["ts_not_kept"] = counts.ts_out_of_range;
    result["link_type"] = counts.link_type;
    return result;
}

}  // namespace

void bind_anonymise(nb::module_& module) {
    nb::exception<AnonymiseError>(module, "AnonymiseError", PyExc_ValueError);
    module.def("anonymise_file", &anonymise_capture, nb::arg("path"), nb::arg("descriptor"), nb::arg("key"),
               nb::arg("macs"), nb::arg("vendors").none(), "See acapella_core.anonymise");
}

}  // namespace acapella
