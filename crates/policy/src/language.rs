//! Which language a message is in.

use std::borrow::Cow;

use gauntlet_mail::Message;
use whatlang::Lang;

/// Characters of a message's text that are looked at.
const CHARS_MAX: usize = 2_000;

/// Codes of two letters (ISO 639-1) for those of three (ISO 639-3), where there are any.
const SHORT: &str = "afr af,aka ak,amh am,ara ar,aze az,bel be,ben bn,bul bg,cat ca,ces cs,cmn zh,cym cy,dan da,deu de,ell el,\
    eng en,epo eo,est et,fin fi,fra fr,guj gu,heb he,hin hi,hrv hr,hun hu,hye hy,ind id,ita it,jav jv,jpn ja,kan kn,kat ka,\
    khm km,kor ko,lat la,lav lv,lit lt,mal ml,mar mr,mkd mk,mya my,nep ne,nld nl,nob nb,ori or,pan pa,pes fa,pol pl,por pt,\
    ron ro,rus ru,sin si,slk sk,slv sl,sna sn,spa es,srp sr,swe sv,tam ta,tel te,tgl tl,tha th,tuk tk,tur tr,ukr uk,urd ur,\
    uzb uz,vie vi,yid yi,zho zh,zul zu";

/// The languages of a message, likeliest first: the one that its text is in (by its frequent
/// letters, unless it is only a few words), as ISO 639-1, else what its Content-Language
/// field says (RFC 3282), each tag as it stands and without its region.
pub(crate) fn of(message: &Message<'_>) -> Vec<String> {
    let mut text = String::new();
    for part in message.texts() {
        let left = CHARS_MAX.saturating_sub(text.chars().count());
        text.extend(part.text.chars().take(left));
        text.push('\n');
    }
    match whatlang::detect(&text) {
        Some(found) if found.is_reliable() => vec![short(found.lang()).into_owned()],
        _ => stated(message),
    }
}

/// Its code of two letters, or of three if there is none.
fn short(language: Lang) -> Cow<'static, str> {
    let long = language.code();
    let pair = SHORT.split(',').find_map(|pair| pair.strip_prefix(long)?.strip_prefix(' '));
    Cow::Borrowed(pair.unwrap_or(long))
}

fn stated(message: &Message<'_>) -> Vec<String> {
    let Some(field) = message.header("content-language") else { return Vec::new() };
    let mut all = Vec::new();
    for tag in field.decoded().split(',').map(str::trim).filter(|tag| !tag.is_empty()) {
        let primary = tag.split('-').next().unwrap_or(tag);
        for name in [tag, primary] {
            if !all.iter().any(|known| known == name) {
                all.push(name.to_owned());
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn languages(head: &str, text: &str) -> Vec<String> {
        let raw = format!("Content-Type: text/plain; charset=utf-8\r\n{head}\r\n{text}\r\n");
        of(&Message::parse(raw.as_bytes()))
    }

    #[test]
    fn the_text_decides_and_else_the_field() {
        let german = "Sehr geehrte Damen und Herren, anbei erhalten Sie die Rechnung für den vergangenen Monat. \
            Bitte überweisen Sie den Betrag innerhalb von vierzehn Tagen auf das angegebene Konto.";
        assert_eq!(
            languages("Content-Language: en\r\n", german),
            ["de"],
            "the text is believed first"
        );
        let russian =
            "Уважаемые коллеги, напоминаем, что завтра в десять часов состоится собрание отдела.";
        assert_eq!(languages("", russian), ["ru"]);
        assert_eq!(languages("", "請在本週五之前將報告寄給我,謝謝您的協助與配合。"), ["zh"]);
        assert_eq!(languages("", ""), [""; 0]);
        assert_eq!(languages("Content-Language: de-DE, en\r\n", "ok"), ["de-DE", "de", "en"]);
        assert_eq!(languages("Content-Language: , ,\r\n", "1234"), [""; 0]);
        let hostile = "\u{202e}\u{0}".repeat(500_000);
        assert_eq!(languages("", &hostile), [""; 0]);
    }

    #[test]
    fn every_language_that_is_detected_has_a_short_code() {
        for language in Lang::all() {
            assert_eq!(short(*language).len(), 2, "{}", language.code());
        }
    }
}
