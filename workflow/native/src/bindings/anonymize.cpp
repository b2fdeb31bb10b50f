#include "bindings/anonymize.hpp"

#include <arpa/inet.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <optional>

#include "anonymize/file.hpp"
#include "anonymize/leaks/leaks.hpp"
#include "anonymize/pseudonyms/address_map.hpp"
#include "bindings/errors.hpp"
#include "bindings/file_info.hpp"
#include "dissect/vendors.hpp"
#include "frame/tunnels.hpp"

namespace nb = nanobind;

namespace acapella {
namespace {

using namespace anonymize;

Key key_of(const nb::bytes& key) {
    if (key.size() != kKey) throw nb::value_error("a key has 32 bytes");
    return Key(static_cast<const std::byte*>(key.data()), kKey);
}

MacPolicy macs_of(const std::string& name) {
    if (name == "replace") return MacPolicy::replace;
    if (name == "blank") return MacPolicy::blank;
    throw nb::value_error("macs: expected replace or blank");
}

template <typename Address>
nb::bytes bytes_of(const std::vector<Pair<Address>>& pairs) {
    return nb::bytes(reinterpret_cast<const char*>(pairs.data()), pairs.size() * sizeof(Pair<Address>));
}

template <typename Address>
std::vector<Pair<Address>> pairs_of(const nb::bytes& data) {
    if (data.size() % sizeof(Pair<Address>) != 0) throw nb::value_error("not pairs of addresses");
    std::vector<Pair<Address>> pairs(data.size() / sizeof(Pair<Address>));
    if (!pairs.empty()) std::memcpy(pairs.data(), data.data(), data.size());
    return pairs;
}

// The arguments were checked by the only caller, acapella_core.anonymize.
nb::dict anonymize_capture(const std::string& path, int descriptor, const nb::bytes& key,
                           const std::string& macs, const Vendors* vendors,
                           const input::DecompressionLimits& limits) {
    const Key key_bytes = key_of(key);
    const MacPolicy policy = macs_of(macs);
    const FileCounts counts = [&] {
        const nb::gil_scoped_release unlocked;
        const auto progress = [] {
            const nb::gil_scoped_acquire locked;  // allows Ctrl-C
            if (PyErr_CheckSignals() != 0) throw nb::python_error();
        };
        return anonymize_file(path, descriptor, key_bytes, policy, vendors, progress, limits);
    }();
    nb::dict result = file_dict(counts.info);
    result["frames"] = counts.frames;
    result["wire_bytes"] = counts.wire_bytes;
    result["captured_bytes"] = counts.captured_bytes;
    result["kept_bytes"] = counts.kept_bytes;
    result["cut_frames"] = counts.cut_frames;
    result["empty_frames"] = counts.empty_frames;
    result["ts_not_kept"] = counts.ts_out_of_range;
    result["link_type"] = counts.link_type;
    nb::dict replaced;
    replaced["ipv4"] = bytes_of(counts.ipv4);
    replaced["ipv6"] = bytes_of(counts.ipv6);
    replaced["macs"] = bytes_of(counts.macs);
    result["replaced"] = replaced;
    return result;
}

template <typename Address>
std::string pseudonym_of(const CryptoPan& pan, int family, Address address) {
    address = pan.map(address);
    std::array<char, INET6_ADDRSTRLEN> text{};
    inet_ntop(family, address.data(), text.data(), text.size());
    return text.data();
}

// Returns the pseudonyms of addresses, both as text.
std::vector<std::string> pseudonyms_of(const std::vector<std::string>& addresses, const nb::bytes& key) {
    const CryptoPan pan(key_of(key));
    std::vector<std::string> pseudonyms;
    pseudonyms.reserve(addresses.size());
    for (const std::string& text : addresses) {
        Ipv4 ipv4;
        Ipv6 ipv6;
        if (inet_pton(AF_INET, text.c_str(), ipv4.data()) == 1) {
            pseudonyms.push_back(pseudonym_of(pan, AF_INET, ipv4));
        } else if (inet_pton(AF_INET6, text.c_str(), ipv6.data()) == 1) {
            pseudonyms.push_back(pseudonym_of(pan, AF_INET6, ipv6));
        } else {
            throw nb::value_error("not an address");
        }
    }
    return pseudonyms;
}

// Returns the pseudonyms of tunnel identifiers of one type, which is named as in the column `tunnels` of the
// tables.
std::vector<std::uint32_t> tunnel_pseudonyms_of(const std::string& type,
                                                const std::vector<std::uint32_t>& ids, const nb::bytes& key) {
    const std::optional<TunnelType> known = tunnel_type_of(type);
    if (!known) throw nb::value_error("not a type of tunnel");
    TunnelMap map(key_of(key));
    std::vector<std::uint32_t> pseudonyms;
    pseudonyms.reserve(ids.size());
    for (const std::uint32_t id : ids) {
        if (std::uint64_t{id} >> bits_of(*known) != 0) throw nb::value_error("wider than its field");
        pseudonyms.push_back(map.map(*known, id));
    }
    return pseudonyms;
}

// Parses twelve hexadecimal digits, optionally with colons, hyphens or dots.
std::optional<Mac> mac_of(const std::string& text) {
    std::string hex;
    std::ranges::copy_if(text, std::back_inserter(hex),
                         [](char c) { return c != ':' && c != '-' && c != '.'; });
    Mac address{};
    if (hex.size() != 2 * address.size()) return std::nullopt;
    for (std::size_t i = 0; i < address.size(); ++i) {
        unsigned byte = 0;
        const char* digits = hex.data() + 2 * i;
        const auto read = std::from_chars(digits, digits + 2, byte, 16);
        if (read.ec != std::errc{} || read.ptr != digits + 2) return std::nullopt;
        address[i] = static_cast<std::byte>(byte);
    }
    return address;
}

// Searches a release for content that must not be published.
class LeakSearch {
  public:
    void add(const nb::bytes& ipv4, const nb::bytes& ipv6, const nb::bytes& macs) {
        known_.ipv4.add(pairs_of<Ipv4>(ipv4));
        known_.ipv6.add(pairs_of<Ipv6>(ipv6));
        known_.macs.add(pairs_of<Mac>(macs));
    }
    // Adds the texts that are addresses to the original addresses; skips other texts.
    void add_originals(const std::vector<std::string>& texts) {
        std::vector<Ipv4> ipv4_addresses;
        std::vector<Ipv6> ipv6_addresses;
        for (const std::string& text : texts) {
            Ipv4 ipv4;
            Ipv6 ipv6;
            if (inet_pton(AF_INET, text.c_str(), ipv4.data()) == 1) ipv4_addresses.push_back(ipv4);
            if (inet_pton(AF_INET6, text.c_str(), ipv6.data()) == 1) ipv6_addresses.push_back(ipv6);
        }
        known_.ipv4.add_originals(ipv4_addresses);
        known_.ipv6.add_originals(ipv6_addresses);
    }
    // Returns the original addresses among the words. For a word with colons that is not one, returns the
    // first sequence of its colon-separated groups that is one, unless the word is a pseudonym.
    [[nodiscard]] std::vector<std::string> addresses(const std::vector<std::string>& words) const {
        std::vector<std::string> matches;
        for (const std::string& word : words) {
            if (is_forbidden(word)) {
                matches.push_back(word);
            } else if (const auto part = forbidden_part(word)) {
                matches.push_back(*part);
            }
        }
        return matches;
    }
    nb::object find(const std::string& original, const std::string& released, const Vendors* vendors,
                    const Windows& texts, const input::DecompressionLimits& limits) {
        return as_tuple([&] {
            return find_leak(original, released, known_, texts, vendors, unexplained_, check_signals, limits);
        });
    }
    // Returns a frame of a capture that contains a run left unexplained in any capture passed to find().
    [[nodiscard]] nb::object find_unexplained(const std::string& original,
                                              const input::DecompressionLimits& limits) const {
        if (unexplained_.empty()) return nb::none();
        return as_tuple([&] { return find_windows(original, unexplained_, check_signals, limits); });
    }

  private:
    [[nodiscard]] bool is_forbidden(const std::string& word) const {
        Ipv4 ipv4;
        Ipv6 ipv6;
        if (inet_pton(AF_INET, word.c_str(), ipv4.data()) == 1) return known_.ipv4.is_forbidden(ipv4);
        if (const auto mac = mac_of(word)) return known_.macs.is_forbidden(*mac);
        return inet_pton(AF_INET6, word.c_str(), ipv6.data()) == 1 && known_.ipv6.is_forbidden(ipv6);
    }

    [[nodiscard]] std::optional<std::string> forbidden_part(const std::string& word) const {
        constexpr std::size_t kMaxColons = 8;
        Ipv6 ipv6;
        if (word.find(':') == std::string::npos ||
            (inet_pton(AF_INET6, word.c_str(), ipv6.data()) == 1 && known_.ipv6.is_pseudonym(ipv6)))
            return std::nullopt;
        for (std::size_t begin = 0; begin < word.size(); ++begin) {
            if (begin != 0 && word[begin - 1] != ':' && word[begin] != ':') continue;
            std::size_t colons = 0;
            for (std::size_t end = begin; colons <= kMaxColons && end < word.size(); ++end) {
                if (word[end] == ':') ++colons;
                const bool ends_group = end + 1 == word.size() || word[end + 1] == ':' || word[end] == ':';
                if (!ends_group || colons < 2) continue;
                std::string part = word.substr(begin, end + 1 - begin);
                if (is_forbidden(part)) return part;
            }
        }
        return std::nullopt;
    }

    static void check_signals() {
        const nb::gil_scoped_acquire locked;  // allows Ctrl-C
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    template <typename Find>
    static nb::object as_tuple(const Find& find) {
        const auto leak = [&] {
            const nb::gil_scoped_release unlocked;
            return find();
        }();
        if (!leak) return nb::none();
        return nb::make_tuple(leak->frame, leak->offset, leak->what);
    }

    KnownAddresses known_;
    Windows unexplained_;
};

Windows windows_of(const std::vector<nb::bytes>& texts, bool all_runs) {
    std::vector<std::string_view> views;
    views.reserve(texts.size());
    for (const nb::bytes& text : texts) views.emplace_back(text.c_str(), text.size());
    return {views, all_runs};
}

std::optional<std::size_t> find_window(const Windows& windows, const nb::bytes& data) {
    return windows.find(Bytes(static_cast<const std::byte*>(data.data()), data.size()));
}

}  // namespace

void bind_anonymize(nb::module_& module) {
    const nb::exception<AnonymizeError> base(module, "AnonymizeError", PyExc_ValueError);
    register_numbered<WriteError>(nb::exception<WriteError>(module, "WriteError", base));
    module.def("anonymize_file", &anonymize_capture, nb::arg("path"), nb::arg("descriptor"), nb::arg("key"),
               nb::arg("macs"), nb::arg("vendors").none(), nb::arg("limits") = input::DecompressionLimits(),
               "See acapella_core.anonymize");
    module.def("pseudonyms_of", &pseudonyms_of, nb::arg("addresses"), nb::arg("key"),
               "See acapella_core.anonymize");
    module.def("tunnel_pseudonyms_of", &tunnel_pseudonyms_of, nb::arg("type"), nb::arg("ids"), nb::arg("key"),
               "See acapella_core.anonymize");
    nb::class_<LeakSearch>(module, "LeakSearch", "See acapella.release.search")
        .def(nb::init<>())
        .def("add", &LeakSearch::add, nb::arg("ipv4"), nb::arg("ipv6"), nb::arg("macs"))
        .def("add_originals", &LeakSearch::add_originals, nb::arg("texts"))
        .def("addresses", &LeakSearch::addresses, nb::arg("words"))
        .def("find", &LeakSearch::find, nb::arg("original"), nb::arg("released"), nb::arg("vendors").none(),
             nb::arg("texts"), nb::arg("limits") = input::DecompressionLimits())
        .def("find_unexplained", &LeakSearch::find_unexplained, nb::arg("original"),
             nb::arg("limits") = input::DecompressionLimits());
    nb::class_<Windows>(module, "Windows", "See acapella.release.search")
        .def(
            "__init__",
            [](Windows* self, const std::vector<nb::bytes>& texts, bool all_runs) {
                new (self) Windows(windows_of(texts, all_runs));
            },
            nb::arg("texts"), nb::kw_only(), nb::arg("whole"))
        .def("find", &find_window, nb::arg("data"));
}

}  // namespace acapella
