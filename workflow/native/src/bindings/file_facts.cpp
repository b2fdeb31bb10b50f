#include "bindings/file_facts.hpp"

namespace nb = nanobind;

namespace acapella {

nb::dict file_dict(const input::FileFacts& facts) {
    nb::dict file;
    nb::list link_types;
    for (const std::uint16_t type : facts.link_types) link_types.append(type);
    file["format"] = facts.format;
    file["compression"] = facts.compression;
    file["link_types"] = link_types;
    file["snaplen"] = facts.snaplen == 0 ? nb::object(nb::none()) : nb::object(nb::int_(facts.snaplen));
    file["fcs_len"] = facts.fcs_len;
    file["untimed"] = facts.untimed;
    file["longer_than_snaplen"] = facts.longer_than_snaplen;
    file["ts_out_of_range"] = facts.ts_out_of_range;
    file["blocks_not_frames"] = facts.blocks_not_frames;
    const bool whole = facts.end == input::FileEnd::clean;
    file["file_issue"] = whole ? nb::object(nb::none()) : nb::object(nb::str(input::name_of(facts.end)));
    file["file_issue_detail"] = facts.end_detail;
    file["file_unread_bytes"] = facts.unread_bytes;
    file["file_issue_offset"] = whole ? nb::object(nb::none()) : nb::object(nb::int_(facts.end_offset));
    return file;
}

}  // namespace acapella
