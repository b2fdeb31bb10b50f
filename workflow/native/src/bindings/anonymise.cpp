#include "bindings/anonymise.hpp"

#include <arpa/inet.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "anonymise/address_map.hpp"
#include "anonymise/file.hpp"
#include "bindings/file_facts.hpp"
#include "dissect/vendors.hpp"
#include "tunnels.hpp"

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

template <typename Address>
std::string pseudonym_of(const CryptoPan& pan, int family, Address address) {
    address = pan.map(address);
    std::array<char, INET6_ADDRSTRLEN> text{};
    inet_ntop(family, address.data(), text.data(), text.size());
    return text.data();
}

// As tables write them, of addresses as tables write them.
std::vector<std::string> pseudonyms_of(const std::vector<std::string>& addresses, const nb::bytes& key) {
    const CryptoPan pan(key_of(key));
    std::vector<std::string> found;
    found.reserve(addresses.size());
    for (const std::string& text : addresses) {
        Ipv4 four;
        Ipv6 six;
        if (inet_pton(AF_INET, text.c_str(), four.data()) == 1) {
            found.push_back(pseudonym_of(pan, AF_INET, four));
        } else if (inet_pton(AF_INET6, text.c_str(), six.data()) == 1) {
            found.push_back(pseudonym_of(pan, AF_INET6, six));
        } else {
            throw nb::value_error("not an address");
        }
    }
    return found;
}

// The pseudonyms of tunnel identifiers of one type, as in the tables' column `tunnels`.
std::vector<std::uint32_t> tunnel_pseudonyms_of(const std::string& type,
                                                const std::vector<std::uint32_t>& ids, const nb::bytes& key) {
    const std::optional<TunnelType> known = tunnel_type_of(type);
    if (!known) throw nb::value_error("not a type of tunnel");
    TunnelMap map(key_of(key));
    std::vector<std::uint32_t> found;
    found.reserve(ids.size());
    for (const std::uint32_t id : ids) {
        if (std::uint64_t{id} >> bits_of(*known) != 0) throw nb::value_error("wider than its field");
        found.push_back(map.map(*known, id));
    }
    return found;
}

}  // namespace

void bind_anonymise(nb::module_& module) {
    const nb::exception<AnonymiseError> base(module, "AnonymiseError", PyExc_ValueError);
    nb::exception<WriteError>(module, "WriteError", base);
    module.def("anonymise_file", &anonymise_capture, nb::arg("path"), nb::arg("descriptor"), nb::arg("key"),
               nb::arg("macs"), nb::arg("vendors").none(), "See acapella_core.anonymise");
    module.def("pseudonyms_of", &pseudonyms_of, nb::arg("addresses"), nb::arg("key"),
               "See acapella_core.anonymise");
    module.def("tunnel_pseudonyms_of", &tunnel_pseudonyms_of, nb::arg("type"), nb::arg("ids"), nb::arg("key"),
               "See acapella_core.anonymise");
}

}  // namespace acapella
