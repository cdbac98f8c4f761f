//! What SpamAssassin 4.0.1 and its plugins offer: commands, eval functions and features.
//!
//! These tables answer `if can(...)`, `if has(...)`, `ifplugin` and whether a command is known. A
//! plugin counts as loaded when a `loadplugin` line of the files names it. The names are the
//! language's vocabulary, from its documentation and from what `spamassassin -D` reports.

/// A plugin of the 4.0.1 distribution.
#[derive(Debug)]
pub(crate) struct Plugin {
    /// Perl's name of the module, without `Mail::SpamAssassin::Plugin::`.
    pub(crate) name: &'static str,
    /// Commands it adds, separated by spaces.
    pub(crate) commands: &'static str,
    /// Eval functions it adds: `h:` header, `b:` body, `f:` full, `r:` DNS lists, `?:` any kind.
    pub(crate) evals: &'static str,
    /// What `can` and `has` find in it.
    pub(crate) features: &'static str,
}

/// Package prefix of the distribution's plugins.
pub(crate) const PACKAGE: &str = "Mail::SpamAssassin::Plugin::";

/// Commands of the core that are not rule definitions.
pub(crate) const CORE_COMMANDS: &str = "add_header all_spam_to allow_user_rules always_trust_envelope_sender bayes_auto_expire \
    bayes_auto_learn bayes_expiry_max_db_size bayes_file_mode bayes_ignore_from \
    bayes_ignore_header bayes_ignore_to bayes_journal_max_size bayes_learn_during_report \
    bayes_learn_to_journal bayes_min_ham_num bayes_min_spam_num bayes_path bayes_seen_ttl \
    bayes_sql_dsn bayes_sql_override_username bayes_sql_password bayes_sql_username \
    bayes_sql_username_authorized bayes_store_module bayes_token_sources bayes_token_ttl \
    bayes_use_hapaxes blacklist_from blacklist_to blacklist_uri_host blocklist_from blocklist_to \
    blocklist_uri_host body_part_scan_size clear_dns_query_restriction \
    clear_dns_query_restrictions clear_dns_servers clear_headers clear_internal_networks \
    clear_msa_networks clear_originating_ip_headers clear_report_template clear_trusted_networks \
    clear_unsafe_report_template clear_util_rb country_db_path country_db_type \
    def_welcomelist_auth def_welcomelist_from_rcvd def_whitelist_auth def_whitelist_from_rcvd \
    delist_uri_host dns_available dns_block_rule dns_block_time dns_local_ports_avoid \
    dns_local_ports_none dns_local_ports_permit dns_options dns_query_restriction dns_server \
    dns_test_interval enlist_addrlist enlist_uri_host envelope_sender_header fold_headers \
    geodb_module geodb_options geodb_search_path ignore_always_matching_regexps \
    internal_networks lock_method mbox_format_from_regex more_spam_to msa_networks \
    normalize_charset ok_locales originating_ip_headers parse_dkim_uris rawbody_part_scan_size \
    rbl_timeout redirector_pattern remove_header report report_charset report_contact \
    report_hostname report_safe report_safe_copy_headers report_wrap_width required_hits \
    required_score rewrite_header skip_rbl_checks subjprefix time_limit trusted_networks \
    unblacklist_from unblocklist_from unsafe_report unwelcomelist_auth unwelcomelist_from \
    unwelcomelist_from_rcvd unwhitelist_auth unwhitelist_from unwhitelist_from_rcvd \
    uri_country_db_isp_path uri_country_db_path use_bayes use_bayes_rules use_learner \
    user_scores_dsn user_scores_fallback_to_global user_scores_ldap_password \
    user_scores_ldap_username user_scores_sql_custom_query user_scores_sql_password \
    user_scores_sql_username util_rb_2tld util_rb_3tld util_rb_tld version_tag \
    welcomelist_allows_relays welcomelist_auth welcomelist_from welcomelist_from_rcvd \
    welcomelist_to welcomelist_uri_host whitelist_allows_relays whitelist_auth whitelist_from \
    whitelist_from_rcvd whitelist_to whitelist_uri_host";
/// What `can` and `has` find in the core.
pub(crate) const CORE_FEATURES: &str = "feature_originating_ip_headers feature_dns_local_ports_permit_avoid \
    feature_bayes_auto_learn_on_error feature_uri_host_listed feature_yesno_takes_args \
    feature_bug6558_free feature_edns feature_dns_query_restriction feature_registryboundaries \
    feature_geodb feature_dns_block_rule feature_compile_regexp feature_meta_rules_matching \
    feature_subjprefix feature_bayes_stopwords feature_get_host feature_blocklist_welcomelist \
    feature_welcomelist_blocklist feature_header_address_parser feature_local_tests_only \
    feature_header_first_last feature_header_match_many feature_capture_rules \
    has_tflags_nosubject has_tflags_nolog perl_min_version_5010000";

/// The plugins of the distribution.
pub(crate) const PLUGINS: &[Plugin] = &[
    Plugin {
        name: "ASN",
        commands: "asn_lookup asn_lookup_ipv6 asn_prefer_geodb asn_prefix asn_use_dns asn_use_geodb \
            clear_asn_lookups",
        evals: "h:check_asn",
        features: "has_asn_lookup_ipv6 has_asn_geodb has_check_asn has_check_asn_tag",
    },
    Plugin {
        name: "AWL",
        commands: "auto_welcomelist_db_modules auto_welcomelist_distinguish_signed \
            auto_welcomelist_factor auto_welcomelist_factory auto_welcomelist_file_mode \
            auto_welcomelist_ipv4_mask_len auto_welcomelist_ipv6_mask_len auto_welcomelist_path \
            auto_whitelist_db_modules auto_whitelist_distinguish_signed auto_whitelist_factor \
            auto_whitelist_factory auto_whitelist_file_mode auto_whitelist_ipv4_mask_len \
            auto_whitelist_ipv6_mask_len auto_whitelist_path use_auto_welcomelist \
            use_auto_whitelist user_awl_dsn user_awl_sql_override_username user_awl_sql_password \
            user_awl_sql_table user_awl_sql_username",
        evals: "h:check_from_in_auto_welcomelist h:check_from_in_auto_whitelist",
        features: "",
    },
    Plugin { name: "AccessDB", commands: "", evals: "h:check_access_database", features: "" },
    Plugin {
        name: "AntiVirus",
        commands: "",
        evals: "b:check_microsoft_executable b:check_suspect_name",
        features: "",
    },
    Plugin { name: "AskDNS", commands: "askdns", evals: "", features: "has_tag_header" },
    Plugin {
        name: "AuthRes",
        commands: "authres_ignored_authserv authres_networks authres_trusted_authserv",
        evals: "h:check_authres_result",
        features: "",
    },
    Plugin {
        name: "AutoLearnThreshold",
        commands: "bayes_auto_learn_on_error bayes_auto_learn_threshold_nonspam \
            bayes_auto_learn_threshold_spam",
        evals: "",
        features: "",
    },
    Plugin {
        name: "Bayes",
        commands: "bayes_stopword_* bayes_max_token_length bayes_stopword_languages",
        evals: "b:check_bayes",
        features: "",
    },
    Plugin {
        name: "BodyEval",
        commands: "",
        evals: "b:multipart_alternative_difference b:multipart_alternative_difference_count \
            b:check_blank_line_ratio b:tvd_vertical_words b:check_stock_info b:check_body_length \
            b:plaintext_body_length b:plaintext_sig_length b:plaintext_body_sig_ratio",
        features: "has_check_body_length has_plaintext_body_sig_ratio",
    },
    Plugin { name: "BodyRuleBaseExtractor", commands: "", evals: "", features: "" },
    Plugin { name: "Check", commands: "", evals: "", features: "" },
    Plugin {
        name: "DCC",
        commands: "dcc_body_max dcc_dccifd_path dcc_fuz1_max dcc_fuz2_max dcc_home dcc_learn_score \
            dcc_options dcc_path dcc_rep_percent dcc_timeout dccifd_options use_dcc use_dcc_rep",
        evals: "f:check_dcc f:check_dcc_reputation_range",
        features: "",
    },
    Plugin {
        name: "DKIM",
        commands: "adsp_override def_welcomelist_from_dkim def_whitelist_from_dkim \
            dkim_minimum_key_bits dkim_timeout unwelcomelist_from_dkim unwhitelist_from_dkim \
            welcomelist_from_dkim whitelist_from_dkim",
        evals: "f:check_dkim_signed f:check_arc_signed f:check_dkim_valid f:check_arc_valid \
            f:check_dkim_valid_author_sig h:check_dkim_testing f:check_dkim_valid_envelopefrom \
            h:check_dkim_adsp f:check_dkim_dependable h:check_for_dkim_welcomelist_from \
            h:check_for_dkim_whitelist_from h:check_for_def_dkim_welcomelist_from \
            h:check_for_def_dkim_whitelist_from ?:check_dkim_verified ?:check_dkim_signall \
            ?:check_dkim_signsome",
        features: "has_arc",
    },
    Plugin {
        name: "DMARC",
        commands: "dmarc_save_reports",
        evals: "h:check_dmarc_pass h:check_dmarc_reject h:check_dmarc_quarantine h:check_dmarc_none \
            h:check_dmarc_missing",
        features: "",
    },
    Plugin {
        name: "DNSEval",
        commands: "rbl_headers",
        evals: "r:check_rbl r:check_rbl_txt r:check_rbl_sub r:check_rbl_results_for \
            r:check_rbl_from_host r:check_rbl_from_domain r:check_rbl_envfrom \
            r:check_rbl_headers r:check_rbl_rcvd r:check_rbl_ns_from r:check_rbl_accreditor \
            r:check_dns_sender",
        features: "has_tflags_domains_only has_tflags_ips_only",
    },
    Plugin {
        name: "DecodeShortURLs",
        commands: "clear_url_shortener max_short_url_redirections max_short_urls url_shortener \
            url_shortener_cache_autoclean url_shortener_cache_dsn url_shortener_cache_password \
            url_shortener_cache_ttl url_shortener_cache_type url_shortener_cache_username \
            url_shortener_get url_shortener_loginfo url_shortener_timeout \
            url_shortener_user_agent",
        evals: "b:short_url b:short_url_redir b:short_url_200 b:short_url_404 b:short_url_code \
            b:short_url_chained b:short_url_maxchain b:short_url_loop ?:short_url_tests",
        features: "has_short_url has_autoclean has_short_url_code has_user_agent has_get has_clear \
            has_timeout has_max_redirections has_short_url_redir",
    },
    Plugin {
        name: "ExtractText",
        commands: "extracttext_external extracttext_use extracttext_maxparts extracttext_timeout",
        evals: "",
        features: "",
    },
    Plugin {
        name: "FreeMail",
        commands: "freemail_domains freemail_welcomelist freemail_whitelist freemail_add_describe_email freemail_import_def_welcomelist_auth \
            freemail_import_def_whitelist_auth freemail_import_welcomelist_auth \
            freemail_import_whitelist_auth freemail_max_body_emails freemail_max_body_freemails \
            freemail_skip_bulk_envfrom freemail_skip_when_over_max",
        evals: "h:check_freemail_replyto h:check_freemail_from h:check_freemail_header \
            h:check_freemail_body",
        features: "",
    },
    Plugin {
        name: "FromNameSpoof",
        commands: "fns_add_addrlist fns_check fns_extrachars fns_ignore_dkim fns_ignore_headers \
            fns_remove_addrlist",
        evals: "h:check_fromname_spoof h:check_fromname_different h:check_fromname_domain_differ \
            h:check_fromname_contains_email h:check_fromname_equals_to \
            h:check_fromname_owners_differ h:check_fromname_equals_replyto",
        features: "",
    },
    Plugin {
        name: "HTMLEval",
        commands: "",
        evals: "b:html_tag_balance b:html_image_only b:html_image_ratio b:html_charset_faraway \
            b:html_tag_exists b:html_test b:html_eval b:html_text_match \
            b:html_title_subject_ratio b:html_text_not_match b:html_range b:check_iframe_src",
        features: "",
    },
    Plugin {
        name: "HTTPSMismatch",
        commands: "",
        evals: "b:check_https_http_mismatch",
        features: "",
    },
    Plugin {
        name: "HashBL",
        commands: "hashbl_acl_* hashbl_email_domain_alias hashbl_email_regex hashbl_email_welcomelist \
            hashbl_email_whitelist hashbl_ignore",
        evals: "?:check_hashbl_bodyre ",
        features: "has_hashbl_bodyre has_hashbl_bodyre_num has_hashbl_emails has_hashbl_uris \
            has_hashbl_ignore has_hashbl_email_regex has_hashbl_email_welcomelist \
            has_hashbl_email_whitelist has_hashbl_tag has_hashbl_sha256 has_hashbl_attachments \
            has_hashbl_email_domain has_hashbl_email_domain_alias",
    },
    Plugin {
        name: "HeaderEval",
        commands: "",
        evals: "h:check_for_fake_aol_relay_in_rcvd h:check_for_faraway_charset_in_headers \
            h:check_for_unique_subject_id h:check_illegal_chars \
            h:check_for_forged_hotmail_received_headers h:check_for_no_hotmail_received_headers \
            h:check_for_msn_groups_headers h:check_for_forged_eudoramail_received_headers \
            h:check_for_forged_yahoo_received_headers h:check_for_forged_juno_received_headers \
            h:check_for_forged_gmail_received_headers h:check_for_matching_env_and_hdr_from \
            h:sorted_recipients h:similar_recipients h:check_for_missing_to_header \
            h:check_for_forged_gw05_received_headers h:check_for_shifted_date \
            h:subject_is_all_caps h:check_for_to_in_subject h:check_outlook_message_id \
            h:check_messageid_not_usable h:check_header_count_range h:check_unresolved_template \
            h:check_ratware_name_id h:check_ratware_envelope_from \
            h:gated_through_received_hdr_remover h:received_within_months \
            h:check_equal_from_domains",
        features: "",
    },
    Plugin {
        name: "ImageInfo",
        commands: "",
        evals: "b:image_count b:pixel_coverage b:image_size_exact b:image_size_range b:image_named \
            b:image_name_regex b:image_to_text_ratio",
        features: "",
    },
    Plugin {
        name: "MIMEEval",
        commands: "",
        evals: "b:check_for_mime b:check_for_mime_html b:check_for_mime_html_only \
            b:check_mime_multipart_ratio ?:check_msg_parse_flags b:check_for_ascii_text_illegal \
            b:check_abundant_unicode_ratio b:check_for_faraway_charset b:check_for_uppercase \
            b:check_ma_non_text b:check_base64_length b:check_qp_ratio",
        features: "has_check_for_ascii_text_illegal has_check_abundant_unicode_ratio has_check_qp_ratio",
    },
    Plugin {
        name: "MIMEHeader",
        commands: "mimeheader",
        evals: "",
        features: "has_all_header has_tflags_range has_tflags_concat has_tflags_multiple \
            has_capture_rules",
    },
    Plugin {
        name: "OLEVBMacro",
        commands: "olemacro_download_marker olemacro_extended_scan olemacro_exts olemacro_macro_exts \
            olemacro_max_file olemacro_num_mime olemacro_num_zip \
            olemacro_prefer_contentdisposition olemacro_skip_ctypes olemacro_skip_exts \
            olemacro_zip_depth olemacro_zips",
        evals: "b:check_olemacro b:check_oleobject b:check_olertfobject b:check_olemacro_csv \
            b:check_olemacro_malice b:check_olemacro_renamed b:check_olemacro_encrypted \
            b:check_olemacro_zip_password b:check_olemacro_download_exe \
            b:check_olemacro_redirect_uri b:check_olemacro_mhtml_uri",
        features: "has_olemacro_redirect_uri has_olemacro_mhtml_uri has_olertfobject",
    },
    Plugin { name: "OneLineBodyRuleType", commands: "", evals: "", features: "" },
    Plugin { name: "P595Body", commands: "", evals: "", features: "" },
    Plugin {
        name: "PDFInfo",
        commands: "",
        evals: "b:pdf_count b:pdf_image_count b:pdf_pixel_coverage b:pdf_image_size_exact \
            b:pdf_image_size_range b:pdf_named b:pdf_name_regex b:pdf_image_to_text_ratio \
            b:pdf_match_md5 b:pdf_match_fuzzy_md5 b:pdf_match_details b:pdf_is_encrypted \
            b:pdf_is_empty_body",
        features: "",
    },
    Plugin {
        name: "PhishTag",
        commands: "trigger_config trigger_ratio trigger_target",
        evals: "",
        features: "",
    },
    Plugin {
        name: "Phishing",
        commands: "phishing_openphish_feed phishing_phishstats_feed phishing_phishstats_minscore \
            phishing_phishtank_feed phishing_uri_noparam",
        evals: "b:check_phishing",
        features: "",
    },
    Plugin {
        name: "Pyzor",
        commands: "pyzor_count_min pyzor_fork pyzor_max pyzor_options pyzor_path pyzor_perl \
            pyzor_server_file pyzor_timeout pyzor_welcomelist_factor pyzor_welcomelist_min \
            pyzor_whitelist_factor pyzor_whitelist_min use_pyzor",
        evals: "f:check_pyzor",
        features: "has_fork has_perl",
    },
    Plugin {
        name: "Razor2",
        commands: "razor_config razor_fork razor_timeout use_razor2",
        evals: "?:check_razor2 ?:check_razor2_range ",
        features: "has_fork",
    },
    Plugin { name: "RelayCountry", commands: "", evals: "", features: "" },
    Plugin {
        name: "RelayEval",
        commands: "",
        evals: "?:check_for_numeric_helo ?:check_for_illegal_ip ?:check_all_trusted \
            ?:check_no_relays ?:check_relays_unparseable ?:check_for_sender_no_reverse \
            h:check_for_from_domain_in_received_headers ?:check_for_forged_received_trail \
            ?:check_for_forged_received_ip_helo ?:helo_ip_mismatch \
            ?:check_for_no_rdns_dotcom_helo",
        features: "",
    },
    Plugin {
        name: "ReplaceTags",
        commands: "replace_end replace_inter replace_post replace_pre replace_rules replace_start \
            replace_tag",
        evals: "",
        features: "",
    },
    Plugin {
        name: "ResourceLimits",
        commands: "resource_limit_cpu resource_limit_mem",
        evals: "",
        features: "",
    },
    Plugin { name: "Reuse", commands: "reuse run_reuse_tests_only", evals: "", features: "" },
    Plugin { name: "Rule2XSBody", commands: "", evals: "", features: "" },
    Plugin {
        name: "SPF",
        commands: "def_welcomelist_from_spf def_whitelist_from_spf do_not_use_mail_spf \
            do_not_use_mail_spf_query ignore_received_spf_header spf_timeout \
            unwelcomelist_from_spf unwhitelist_from_spf use_newest_received_spf_header \
            welcomelist_from_spf whitelist_from_spf",
        evals: "h:check_for_spf_pass h:check_for_spf_neutral h:check_for_spf_none \
            h:check_for_spf_fail h:check_for_spf_softfail h:check_for_spf_permerror \
            h:check_for_spf_temperror h:check_for_spf_helo_pass h:check_for_spf_helo_neutral \
            h:check_for_spf_helo_none h:check_for_spf_helo_fail h:check_for_spf_helo_softfail \
            h:check_for_spf_helo_permerror h:check_for_spf_helo_temperror \
            h:check_for_spf_welcomelist_from h:check_for_spf_whitelist_from \
            h:check_for_def_spf_welcomelist_from h:check_for_def_spf_whitelist_from \
            h:check_spf_skipped_noenvfrom",
        features: "has_check_for_spf_errors has_check_spf_skipped_noenvfrom",
    },
    Plugin {
        name: "Shortcircuit",
        commands: "shortcircuit shortcircuit_ham_score shortcircuit_max_spam_score \
            shortcircuit_min_ham_score shortcircuit_spam_score",
        evals: "?:check_shortcircuit",
        features: "",
    },
    Plugin {
        name: "SpamCop",
        commands: "spamcop_from_address spamcop_max_report_size spamcop_relayhost spamcop_to_address",
        evals: "",
        features: "",
    },
    Plugin { name: "Test", commands: "", evals: "?:check_test_plugin", features: "" },
    Plugin {
        name: "TextCat",
        commands: "inactive_languages ok_languages textcat_acceptable_score textcat_max_languages \
            textcat_max_ngrams textcat_optimal_ngrams",
        evals: "?:check_language b:check_body_8bits",
        features: "",
    },
    Plugin {
        name: "TxRep",
        commands: "auto_welcomelist_db_modules auto_welcomelist_distinguish_signed \
            auto_welcomelist_file_mode auto_welcomelist_path auto_whitelist_db_modules \
            auto_whitelist_distinguish_signed auto_whitelist_file_mode auto_whitelist_path \
            txrep_autolearn txrep_dilution_factor txrep_expiry_days txrep_factor txrep_factory \
            txrep_ipv4_mask_len txrep_ipv6_mask_len txrep_learn_bonus txrep_learn_penalty \
            txrep_report_details txrep_spf txrep_track_messages txrep_user2global_ratio \
            txrep_weight_domain txrep_weight_email txrep_weight_email_ip txrep_weight_helo \
            txrep_weight_ip txrep_welcomelist_out txrep_whitelist_out use_txrep user_awl_dsn \
            user_awl_sql_override_username user_awl_sql_password user_awl_sql_table \
            user_awl_sql_username",
        evals: "h:check_senders_reputation",
        features: "",
    },
    Plugin {
        name: "URIDNSBL",
        commands: "clear_uridnsbl_skip_domain skip_uribl_checks uridnsbl uridnsbl_max_domains \
            uridnsbl_skip_domain uridnsbl_skip_mailto uridnsbl_timeout uridnssub urifullnsrhsbl \
            urifullnsrhssub urinsrhsbl urinsrhssub urirhsbl urirhssub",
        evals: "?:check_uridnsbl",
        features: "has_tflags_domains_only has_subtest_for_ranges has_uridnsbl_for_a has_uridnsbl_a_ns \
            has_tflags_notrim has_uridnsbl_skip_mailto",
    },
    Plugin {
        name: "URIDetail",
        commands: "uri_detail",
        evals: "?:check_uri_detail",
        features: "has_host_key",
    },
    Plugin {
        name: "URIEval",
        commands: "",
        evals: "?:check_for_http_redirector ?:check_https_ip_mismatch ?:check_uri_truncated",
        features: "",
    },
    Plugin {
        name: "URILocalBL",
        commands: "uri_block_cc uri_block_cidr uri_block_cont uri_block_exclude uri_block_isp",
        evals: "?:check_uri_local_bl",
        features: "",
    },
    Plugin {
        name: "VBounce",
        commands: "welcomelist_bounce_relays whitelist_bounce_relays",
        evals: "?:have_any_bounce_relays ?:check_welcomelist_bounce_relays \
            ?:check_whitelist_bounce_relays",
        features: "",
    },
    Plugin {
        name: "WLBLEval",
        commands: "",
        evals: "h:check_from_in_blocklist h:check_from_in_blacklist h:check_to_in_blocklist \
            h:check_to_in_blacklist h:check_to_in_welcomelist h:check_to_in_whitelist \
            h:check_to_in_more_spam h:check_to_in_all_spam h:check_from_in_list \
            h:check_replyto_in_list h:check_to_in_list h:check_from_in_welcomelist \
            h:check_from_in_whitelist h:check_forged_in_welcomelist h:check_forged_in_whitelist \
            h:check_from_in_default_welcomelist h:check_from_in_default_whitelist \
            h:check_forged_in_default_welcomelist h:check_forged_in_default_whitelist \
            h:check_mailfrom_matches_rcvd h:check_uri_host_listed ?:check_uri_host_in_blocklist \
            ?:check_uri_host_in_blacklist ?:check_uri_host_in_welcomelist \
            ?:check_uri_host_in_whitelist",
        features: "",
    },
    Plugin {
        name: "WelcomeListSubject",
        commands: "blacklist_subject blocklist_subject welcomelist_subject whitelist_subject",
        evals: "h:check_subject_in_welcomelist h:check_subject_in_whitelist \
            h:check_subject_in_blocklist h:check_subject_in_blacklist",
        features: "",
    },
];

/// The plugin of this package name (with or without the prefix).
pub(crate) fn find(package: &str) -> Option<&'static Plugin> {
    let name = package.strip_prefix(PACKAGE).unwrap_or(package);
    PLUGINS.iter().find(|p| p.name == name)
}

/// The plugin that adds this command.
pub(crate) fn of_command(command: &str) -> Option<&'static Plugin> {
    let is = |c: &str| match c.strip_suffix('*') {
        Some(prefix) => command.starts_with(prefix),
        None => c == command,
    };
    PLUGINS.iter().find(|p| p.commands.split_ascii_whitespace().any(is))
}

/// The plugin that adds this eval function, and its kind.
pub(crate) fn of_eval(function: &str) -> Option<(&'static Plugin, u8)> {
    PLUGINS.iter().find_map(|p| {
        let found = p.evals.split_ascii_whitespace().find(|e| e.get(2..) == Some(function))?;
        Some((p, *found.as_bytes().first()?))
    })
}
