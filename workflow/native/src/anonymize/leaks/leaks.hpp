// What of an original capture is in its anonymized one and must not be. It reads both again; of what the
// anonymization noted it takes the addresses alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "anonymize/leaks/leak_fields.hpp"
#include "anonymize/pseudonyms/address_map.hpp"
#include "dissect/trace.hpp"
#include "frame/dissection.hpp"
#include "frame/record.hpp"
#include "input/byte_source.hpp"

namespace acapella {

class Vendors;

namespace anonymize {

inline constexpr std::size_t kRunBytes = 16;  // bytes of payload that are recognized

// The addresses of one kind that a release replaced, and the pseudonyms.
template <typename Address>
class AddressSet {
  public:
    void add(const std::vector<Pair<Address>>& pairs) {
        for (const Pair<Address>& pair : pairs) {
            originals_.push_back(pair[0]);
            pseudonyms_.push_back(pair[1]);
        }
        sort();
    }
    // Addresses of which no pseudonym is known.
    void add_originals(const std::vector<Address>& originals) {
        originals_.insert(originals_.end(), originals.begin(), originals.end());
        sort();
    }
    void sort() {
        for (auto* all : {&originals_, &pseudonyms_}) {
            std::sort(all->begin(), all->end());
            all->erase(std::unique(all->begin(), all->end()), all->end());
        }
    }
    [[nodiscard]] bool is_pseudonym(const Address& address) const {
        return std::binary_search(pseudonyms_.begin(), pseudonyms_.end(), address);
    }
    // An address that is also the pseudonym of another one may be in a release.
    [[nodiscard]] bool is_forbidden(const Address& address) const {
        return std::binary_search(originals_.begin(), originals_.end(), address) && !is_pseudonym(address);
    }

  private:
    std::vector<Address> originals_;
    std::vector<Address> pseudonyms_;
};

struct KnownAddresses {
    AddressSet<Ipv4> ipv4;
    AddressSet<Ipv6> ipv6;
    AddressSet<Mac> macs;

    [[nodiscard]] const AddressSet<Ipv4>& of(const Ipv4&) const { return ipv4; }
    [[nodiscard]] const AddressSet<Ipv6>& of(const Ipv6&) const { return ipv6; }
    [[nodiscard]] const AddressSet<Mac>& of(const Mac&) const { return macs; }
};

// Runs of kRunBytes bytes of some texts: all of each, or the first alone.
class Windows {
  public:
    Windows() = default;
    Windows(const std::vector<std::string_view>& texts, bool whole);
    // The kRunBytes bytes from `at` on; nothing if there are kMax already.
    void add(const char* at);
    [[nodiscard]] bool empty() const { return windows_.empty(); }
    // Where the first of them begins in `bytes`.
    [[nodiscard]] std::optional<std::size_t> find(Bytes bytes) const;

  private:
    static constexpr unsigned kBits = 20;
    static constexpr std::size_t kMax = std::size_t{1} << 20;  // 100 MB
    [[nodiscard]] static std::size_t bit(const char* at);

    std::vector<bool> bits_ = std::vector<bool>(std::size_t{1} << kBits);
    std::unordered_set<std::string> windows_;
};

struct Leak {
    std::uint64_t frame = 0;
    std::size_t offset = 0;  // in the anonymized frame; of payload in a text, in the original one
    std::string what;
};

class LeakFinder {
  public:
    // `vendors` may be null and has to stay, as have the others.
    LeakFinder(const KnownAddresses& known, const Windows& texts, const Vendors* vendors)
        : known_(known), texts_(texts), vendors_(vendors) {}

    // Of one frame. Runs that are neither headers of this frame nor pseudonyms are added to `unexplained`.
    [[nodiscard]] std::optional<Leak> find(const Record& original, const Record& released,
                                           Windows& unexplained);

  private:
    [[nodiscard]] std::optional<Leak> find_addresses(const Record& original, const Record& released);
    [[nodiscard]] std::optional<Leak> find_runs(Bytes original, const Record& released, Windows& unexplained);
    void read_fields(const Record& record);
    void explain(Bytes original, Bytes released);

    const KnownAddresses& known_;
    const Windows& texts_;
    const Vendors* vendors_;
    Dissection dissection_;
    Trace trace_;
    HeaderFields fields_;              // of the frame that was read last
    std::vector<bool> header_;         // bytes of the released frame: in a header
    std::vector<bool> pseudonym_;      // bytes of the released frame: in an address
    std::vector<std::size_t> places_;  // where unexplained runs of kRunBytes bytes begin
};

// The first leak in a capture; `texts` are other parts of the release, in which payload of this capture is
// looked for. `limits`: of the original. Raises InputError if a file is not a capture, AnonymizeError if they
// have not the same frames.
std::optional<Leak> find_leak(const std::string& original, const std::string& released,
                              const KnownAddresses& known, const Windows& texts, const Vendors* vendors,
                              Windows& unexplained, const std::function<void()>& progress,
                              const input::DecompressionLimits& limits = {});

// The first frame of a capture with one of these runs. Raises InputError.
std::optional<Leak> find_windows(const std::string& original, const Windows& windows,
                                 const std::function<void()>& progress,
                                 const input::DecompressionLimits& limits = {});

}  // namespace anonymize
}  // namespace acapella
