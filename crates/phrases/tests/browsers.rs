//! Pages that browsers show otherwise than they are written: which words are whole on the screen.
//! What each shows was looked up in Chromium.

use std::sync::Arc;

use gauntlet_phrases::{Count, Form, PhraseSet, ScoreOptions};

use crate::scanning::set;

/// Points of the page's text, which must be the same however the page is cut.
fn text_points(set: &Arc<PhraseSet>, page: &str) -> i64 {
    let options = ScoreOptions { limit: 50, count: Count::Every };
    let whole = set.score(page, Form::Html, &options);
    let mut scanner = set.scanner(Form::Html);
    let mut buffer = [0; 4];
    page.chars().for_each(|c| scanner.push(c.encode_utf8(&mut buffer)));
    assert_eq!(scanner.finish(&options), whole, "cuts make a difference: {page:?}");
    whole.sights[0].total
}

fn all_have_the_word(pages: &[&str]) {
    let set = set("<forbiddenword><60>\n");
    let missed: Vec<_> = pages.iter().filter(|page| text_points(&set, page) != 60).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

/// The word with something in it.
fn all_join(within: &[&str]) {
    let pages: Vec<String> = within.iter().map(|x| format!("forb{x}iddenword")).collect();
    all_have_the_word(&pages.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn nuls_are_no_part_of_a_word() {
    let utf16: String = "forbiddenword".chars().flat_map(|c| [c, '\0']).collect();
    let utf32: String = "forbiddenword".chars().flat_map(|c| ['\0', '\0', '\0', c]).collect();
    all_have_the_word(&["<p>forb\0idden\0word</p>", &utf16, &utf32, "<p\0>forb\0&#105\0ddenword"]);
    let words = set("< forbidden word ><60>\n");
    assert_eq!(text_points(&words, "\0forbidden\0 \0word\0"), 60);
}

#[test]
fn letters_by_any_name_that_browsers_know() {
    let set = set("<žena><60>\n<сексшоп><60>\n<fjord><60>\n<größe><60>\n");
    for page in [
        "<p>&zcaron;ena",
        "<p>&Zcaron;ENA",
        "<p>&scy;&iecy;&kcy;&scy;&shcy;&ocy;&pcy;",
        "<p>&SHcy; &Scy;&IEcy;&Kcy;&Scy;&SHcy;&Ocy;&Pcy;",
        "<p>&fjlig;ord",
        "<p>gr&ouml;&szlig;e",
        "<p>gr&ouml&szlige",
        "<p>gr&#246;&#xdf;e",
        "<p>gr&ouml;&ApplyFunction;&szlig;e",
    ] {
        assert_eq!(text_points(&set, page), 60, "{page}");
    }
    for page in ["<p>&zcaronena", "<p>&Zcaron ;ena", "<p>&zcaro;ena", "<p>&amp;zcaron;ena"] {
        assert_eq!(text_points(&set, page), 0, "{page}");
    }
}

#[test]
fn tags_that_are_within_a_line_or_unknown() {
    all_join(&[
        "<zz>",
        "</zz>",
        "<x-a></x-a>",
        "<h7>",
        "<p\0>",
        "<time>",
        "<slot>",
        "<output>",
        "<picture>",
        "<blink>",
        "<map>",
        "<rb>",
        "<dív>",
        "<b>",
        "<wbr>",
        "<math></math>",
        "<ruby></ruby>",
        "<div-with-a-name-that-is-long>",
        "<Menuitem>",
        "<selectedcontent>",
    ]);
}

#[test]
fn tags_that_browsers_ignore_or_do_not_show() {
    all_join(&[
        "<html>",
        "<head>",
        "</head>",
        "<body>",
        "</body>",
        "</html>",
        "<meta>",
        "<link>",
        "<base>",
        "<param>",
        "<area>",
        "<col>",
        "<frame>",
        "<frameset>",
        "<colgroup>",
        "<source>",
        "<script>x</script>",
        "<style>x</style>",
        "<noframes>x</noframes>",
        "<noembed>x</noembed>",
        "<noscript>x</noscript>",
        "<template>x</template>",
        "<template><div><template></template><p>x</template>",
        "<title>x</title>",
        "<template><table><tr><td>x</template>",
    ]);
}

#[test]
fn end_tags_of_what_is_not_open() {
    all_join(&[
        "</li>",
        "</div>",
        "</p>",
        "</td>",
        "</tr></td>",
        "</option>",
        "</table>",
        "</select>",
        "</button>",
        "</h1>",
        "</dd>",
        "</form>",
        "</title>",
        "</template>",
        "</textarea>",
        "</section>",
        "</caption>",
        "</hr>",
        "</svg>",
    ]);
    all_have_the_word(&[
        "<ul>forb</li>iddenword</ul>",
        "<div><ul></div>forb</ul>iddenword",
        "<li>x<li>y</li>forb</li>iddenword",
        "<dt>forb</dd>iddenword",
        "<div><form></div>forb<form>iddenword",
        "<form><div>forb</form>iddenword</div>",
        "<table><td>x<div></table>forb</div>iddenword",
        "<div><table><td>forb</div>iddenword</table>",
        "<button><div></button>forb</div>iddenword",
        "<div><object>forb</div>iddenword</object>",
        "<template><div></template>forb</div>iddenword",
        "<option>x<option>y</option>forb</option>iddenword",
    ]);
}

/// What is searched both ways: it depends on sizes, sources and where a script inserts the text.
#[test]
fn what_is_nothing_or_a_box_parts_and_parts_not() {
    let within = [
        "<input type=hidden>",
        "<img>",
        "<image>",
        "<embed>",
        "<audio></audio>",
        "<td>",
        "<tr>",
        "<tbody>",
        "<caption>",
        "<object></object>",
        "<rt></rt>",
        "<dialog></dialog>",
        "<svg width=0></svg>",
        "<svg/>",
        "<svg width=0>x<title>y</title><text>z</svg>",
        "<iframe width=0>x</iframe>",
        "<video width=0></video>",
        "<canvas width=0></canvas>",
        "<img><img>",
        "<img> <img>",
    ];
    all_join(&within[..within.len() - 1]);
    let parts = set("< forb ><1>\n< iddenword ><10>\n< forb iddenword ><100>\n");
    for x in within {
        assert_eq!(text_points(&parts, &format!("x forb{x}iddenword x")), 111, "{x}");
    }
    // Each once, in whichever reading.
    let both = set("< ab ><1>\n<b><10>\n< cd ><100>\n<cd><1000>\n");
    assert_eq!(text_points(&both, "<p>ab<img>cd<img>, ab<img> cd"), 2 + 20 + 200 + 2000);
    all_have_the_word(&[
        "<table>forb<tr>iddenword</table>",
        "forb<table>iddenword</table>",
        "<table><form>forb</tr>iddenword",
        "<option>forb<address>iddenword",
        "<ruby>forb<center>iddenword</ruby>",
        "<select><option>forb<div>iddenword</select>",
    ]);
}

#[test]
fn what_begins_a_line_a_cell_or_a_box_parts() {
    let (whole, parts) = (set("<foobar><60>\n"), set("< foo ><1>\n< bar ><10>\n"));
    for page in [
        "<table><tr><td>foo</td><td>bar</td></tr></table>",
        "<table><td>foo<td>bar",
        "<table><tr><td>foo</td></tr><tr><td>bar",
        "<table><tr><td>foo<tr><td>bar",
        "<table><caption>foo</caption><tr><th>bar",
        "<table><tr><td>foo</td></tr></table>bar",
        "<table><td>foo<table><td>bar",
        "<li>foo</li><li>bar</li>",
        "<li>foo<li>bar",
        "<ul><li>foo</ul>bar",
        "<p>foo</p><p>bar</p>",
        "<p>foo</p>bar",
        "foo<br>bar",
        "foo</br>bar",
        "foo<hr>bar",
        "<option>foo<option>bar",
        "<select><option>foo<option>bar</select>",
        "<option>foo</option>bar",
        "<div>foo</div>bar",
        "<h1>foo</h2>bar",
        "<dt>foo<dd>bar",
        "<form>foo</form>bar",
        "<button>foo</button>bar",
        "<button>foo<button>bar",
        "<textarea>foo</textarea>bar",
        "foo<textarea></textarea>bar",
        "foo<meter></meter>bar",
        "<xmp>foo</xmp>bar",
        "foo<plaintext>bar",
        "<section>foo</section>bar",
        "<details><summary>foo</summary>bar",
        "<div><span>foo</div>bar",
        "<svg><foreignObject><p>foo</p>bar",
        "foo<svg>x<p>bar",
        "<svg><desc>foo</svg>bar",
        "<p>foo</p><svg><text>bar</text></svg>",
    ] {
        assert_eq!(text_points(&whole, page), 0, "{page}");
        assert_eq!(text_points(&parts, page), 11, "{page}");
    }
}

#[test]
fn raw_text_ends_where_it_does_in_browsers() {
    all_have_the_word(&[
        "<noscript><!-- </noscript>forbidden<b>word</b><!-- -->",
        "<xmp><!-- </xmp>forbidden<b>word</b>",
        "<title><!--</title>forbidden<b>word</b><title>--></title>",
        "<textarea><!--</textarea>forbidden<b>word</b><!-- -->",
        "<iframe><!--</iframe>forbidden<b>word</b><!-- -->",
        "<noembed><!--</noembed >forbidden<b>word</b><!-- -->",
        "<style><!--</STYLE/x>forbidden<b>word</b><!-- -->",
        "<script><!--</script>forbidden<b>word</b><!-- -->",
        "<script><!--<script></script><!--</script>forb<b>iddenword</b><!-- -->",
        "<script><!--<script>--></script>forb<b>iddenword</b><!-- -->",
        "<script><!--><script></script>forb<b>iddenword</b>",
        "<plaintext><!--</plaintext><!-- forbiddenword",
        "<xmp><<forbiddenword</xmp>",
    ]);
}

#[test]
fn what_is_aside_is_judged_on_its_own() {
    all_have_the_word(&[
        "<noscript>forb<b>idden</b>word</noscript>",
        "<noscript><p>x</p><!-- --><title>y</title>forb<i>iddenword</noscript>",
        "<title>forb&shy;iddenword</title>",
        "x<title>forbiddenword</title>y",
        "<template><p>forb<b>iddenword</b></template>",
        "<template>x<noscript>forb<b>iddenword</noscript></template>",
    ]);
    let words = set("< casino ><60>\n");
    for page in ["x<noscript>casino</noscript>y", "x<title>casino</title>y", "<title>casino"] {
        assert_eq!(text_points(&words, page), 60, "{page}");
    }
    // It does not join with what is around it.
    let words = set("<casino><60>\n");
    for page in ["cas<noscript>ino</noscript>", "<title>cas</title>ino", "cas<template>ino"] {
        assert_eq!(text_points(&words, page), 0, "{page}");
    }
}

#[test]
fn svg_and_mathml_are_read_otherwise() {
    all_have_the_word(&[
        "<svg><text><![CDATA[forb]]>idden<![CDATA[word]]></text></svg>",
        "<math><mtext></mtext><![CDATA[forb]]>iddenword</math>",
        "<svg><![CDATA[x]]]]><![CDATA[>forbiddenword]]></svg>",
        "forb<![CDATA[>iddenword]]>",
        "<svg></svg>forb<![CDATA[>iddenword]]>",
        "<svg><desc>forb<![CDATA[>iddenword]]>",
        "<svg><p>forb<![CDATA[>iddenword]]>",
        "<svg/>forb<![CDATA[>iddenword]]>",
        "<svg><style><p>forb<b>iddenword",
        "<svg><style><!--</style>--><text>forb<tspan>iddenword",
        "<svg><font size=1><style><!--</style>forb<b>iddenword",
        "<svg><font class=size><style><!--</style>--><text>forb<tspan>iddenword",
        "<svg><foreignObject><p></foreignObject><style><!--</style>forb<b>iddenword",
        "<svg><foreignObject><b></b></foreignObject><text>forb<![CDATA[idden]]>word",
        "<math><annotation-xml encoding='Text/html'><xmp><!--</xmp>forb<b>iddenword",
        "<math><annotation-xml encoding=text/xml><![CDATA[<!--]]>forb<mi>iddenword",
        "<svg><title><xmp><!--</xmp>forb<b>iddenword",
        "forb<svg>x<b>iddenword",
    ]);
}

#[test]
fn comments_and_attributes_end_where_they_do_in_browsers() {
    all_have_the_word(&[
        "forb<!----!-><script>-->iddenword",
        "forb<!----!!><script>-->iddenword",
        "forb<!----!>iddenword",
        "<a =\">forb<b>iddenword</b>\">",
        "<a b/=\">forb<b>iddenword</b>\">",
        "<a b=c\">forb<b>iddenword</b>\">",
        "<a b = '>'>forb<b c=/>iddenword",
    ]);
}

#[test]
fn elements_inside_each_other_take_linear_time() {
    let set = set("<forbiddenword><60>\n");
    let begun = std::time::Instant::now();
    for part in
        ["<div>", "<p>", "<svg><desc>", "<img>a", "<template>", "</td>", "<li><b>", "<xmp><"]
    {
        let page = part.repeat((2 << 20) / part.len());
        assert_eq!(
            set.score(&page, Form::Html, &ScoreOptions { limit: 50, count: Count::Once }).total(),
            0
        );
    }
    let deep = "<div>".repeat(1000) + "foo</div>bar";
    let options = ScoreOptions { limit: 50, count: Count::Once };
    assert_eq!(crate::scanning::set("< foo ><9>\n").score(&deep, Form::Html, &options).total(), 9);
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
}
