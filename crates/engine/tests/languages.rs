//! Good mail in languages of which the model has learned hardly any good mail is judged as English
//! mail is: everyday mail composed in English and the same in other languages, with the same header
//! and structure. What a language brings with it (its letters, character sets and encodings, the
//! country of its domains, its time zone) is no mark of spam.

use base64_simd::STANDARD;
use gauntlet_engine::{Scratch, Settings, Snapshot, scan};
use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_verdict::{Class, Verdict};

/// A language, how it writes everyday mail, and where its mail comes from.
struct Language {
    name: &'static str,
    /// Last label of its domains, and its time zone.
    country: (&'static str, &'static str),
    /// Name of a person, and of a firm.
    names: (&'static str, &'static str),
    /// Subject and text of a colleague's message.
    meeting: (&'static str, &'static str),
    /// Subject and text of a shop's notice.
    order: (&'static str, &'static str),
    /// Subject and text of a newsletter, and the words under its last link.
    news: (&'static str, &'static str, &'static str),
}

const LANGUAGES: &[Language] = &[
    Language {
        name: "English",
        country: ("com", "+0000"),
        names: ("Ann Archer", "River Books"),
        meeting: (
            "Meeting on Thursday",
            "Hello Bob,\n\nplease find the minutes of last week's meeting below. Can we talk about the \
             new timetable on Thursday at ten? I have booked the small room.\n\nBest regards\nAnn",
        ),
        order: (
            "Your order 48213 is on its way",
            "Thank you for your order. We handed your books to the post today; they should arrive on \
             Friday. You can see the state of the delivery in your account.",
        ),
        news: (
            "Our readings in December",
            "This month we read from three new novels. The first evening is on the fifth of December at \
             seven o'clock, entrance is free. We look forward to seeing you.",
            "Unsubscribe",
        ),
    },
    Language {
        name: "Thai",
        country: ("th", "+0700"),
        names: ("สมชาย ใจดี", "ร้านหนังสือริมน้ำ"),
        meeting: (
            "ประชุมวันพฤหัสบดี",
            "สวัสดีครับคุณบ๊อบ\n\nผมส่งบันทึกการประชุมของสัปดาห์ที่แล้วมาให้ด้านล่าง เราคุยเรื่องตารางเวลาใหม่กันวันพฤหัสบดีตอนสิบโมงได้ไหมครับ \
             ผมจองห้องเล็กไว้แล้ว\n\nขอแสดงความนับถือ\nสมชาย",
        ),
        order: (
            "คำสั่งซื้อ 48213 ของคุณถูกจัดส่งแล้ว",
            "ขอบคุณสำหรับการสั่งซื้อ วันนี้เราส่งหนังสือของคุณทางไปรษณีย์แล้ว คาดว่าจะถึงในวันศุกร์ คุณสามารถดูสถานะการจัดส่งได้ในบัญชีของคุณ",
        ),
        news: (
            "กิจกรรมอ่านหนังสือเดือนธันวาคม",
            "เดือนนี้เราจะอ่านนวนิยายใหม่สามเรื่อง คืนแรกจัดวันที่ห้าธันวาคม เวลาหนึ่งทุ่ม เข้าชมฟรี เราหวังว่าจะได้พบคุณ",
            "ยกเลิกการรับข่าวสาร",
        ),
    },
    Language {
        name: "Arabic",
        country: ("eg", "+0200"),
        names: ("أحمد منصور", "مكتبة النهر"),
        meeting: (
            "اجتماع يوم الخميس",
            "مرحبا بوب،\n\nتجد أدناه محضر اجتماع الأسبوع الماضي. هل يمكننا أن نتحدث عن الجدول الجديد يوم الخميس الساعة العاشرة؟ \
             لقد حجزت القاعة الصغيرة.\n\nمع أطيب التحيات\nأحمد",
        ),
        order: (
            "طلبك رقم 48213 في الطريق إليك",
            "شكرا لطلبك. سلمنا كتبك اليوم إلى البريد، ومن المتوقع أن تصل يوم الجمعة. يمكنك الاطلاع على حالة التوصيل في حسابك.",
        ),
        news: (
            "أمسيات القراءة في ديسمبر",
            "نقرأ هذا الشهر من ثلاث روايات جديدة. الأمسية الأولى في الخامس من ديسمبر الساعة السابعة مساء، والدخول مجاني. يسعدنا حضوركم.",
            "إلغاء الاشتراك",
        ),
    },
    Language {
        name: "Hindi",
        country: ("in", "+0530"),
        names: ("अनिल शर्मा", "नदी पुस्तक भंडार"),
        meeting: (
            "गुरुवार की बैठक",
            "नमस्ते बॉब,\n\nपिछले सप्ताह की बैठक का विवरण नीचे है। क्या हम गुरुवार को दस बजे नई समय सारणी पर बात कर सकते हैं? \
             मैंने छोटा कमरा बुक कर लिया है।\n\nसादर\nअनिल",
        ),
        order: (
            "आपका ऑर्डर 48213 भेज दिया गया है",
            "आपके ऑर्डर के लिए धन्यवाद। हमने आज आपकी किताबें डाक से भेज दी हैं, वे शुक्रवार तक पहुँच जाएँगी। आप अपने खाते में डिलीवरी की स्थिति देख सकते हैं।",
        ),
        news: (
            "दिसंबर के पाठ",
            "इस महीने हम तीन नए उपन्यासों से पढ़ेंगे। पहली शाम पाँच दिसंबर को सात बजे है, प्रवेश निःशुल्क है। हम आपकी प्रतीक्षा करेंगे।",
            "सदस्यता समाप्त करें",
        ),
    },
    Language {
        name: "Vietnamese",
        country: ("vn", "+0700"),
        names: ("Nguyễn Văn An", "Hiệu sách Bờ Sông"),
        meeting: (
            "Cuộc họp thứ Năm",
            "Chào anh Bob,\n\ndưới đây là biên bản cuộc họp tuần trước. Chúng ta có thể trao đổi về lịch làm việc mới vào \
             mười giờ sáng thứ Năm không? Tôi đã đặt phòng họp nhỏ.\n\nTrân trọng\nAn",
        ),
        order: (
            "Đơn hàng 48213 của bạn đang được giao",
            "Cảm ơn bạn đã đặt hàng. Hôm nay chúng tôi đã gửi sách của bạn qua bưu điện, dự kiến sẽ đến vào thứ Sáu. Bạn có thể \
             xem tình trạng giao hàng trong tài khoản của mình.",
        ),
        news: (
            "Các buổi đọc sách trong tháng Mười Hai",
            "Tháng này chúng tôi đọc ba cuốn tiểu thuyết mới. Buổi đầu tiên vào ngày năm tháng Mười Hai lúc bảy giờ tối, vào cửa \
             tự do. Rất mong được gặp bạn.",
            "Hủy đăng ký",
        ),
    },
    Language {
        name: "Japanese",
        country: ("jp", "+0900"),
        names: ("田中 一郎", "川辺書店"),
        meeting: (
            "木曜日の会議について",
            "ボブさん\n\nお世話になっております。先週の会議の議事録を以下にお送りします。新しい日程について、木曜日の十時にお話しできますでしょうか。\
             小会議室を予約しました。\n\nよろしくお願いいたします。\n田中",
        ),
        order: (
            "ご注文 48213 を発送いたしました",
            "ご注文ありがとうございます。本日、書籍を郵便で発送いたしました。金曜日に到着する予定です。配送状況はマイページでご確認いただけます。",
        ),
        news: (
            "十二月の朗読会のお知らせ",
            "今月は三冊の新しい小説を朗読します。最初の会は十二月五日の午後七時からで、入場は無料です。皆さまのお越しをお待ちしております。",
            "配信停止",
        ),
    },
    Language {
        name: "Korean",
        country: ("kr", "+0900"),
        names: ("김민수", "강변서점"),
        meeting: (
            "목요일 회의",
            "안녕하세요 밥,\n\n지난주 회의록을 아래에 보냅니다. 목요일 열 시에 새 일정에 대해 이야기할 수 있을까요? 작은 회의실을 예약했습니다.\n\n감사합니다.\n김민수",
        ),
        order: (
            "주문하신 48213 상품이 발송되었습니다",
            "주문해 주셔서 감사합니다. 오늘 책을 우편으로 보냈으며 금요일에 도착할 예정입니다. 배송 상태는 계정에서 확인하실 수 있습니다.",
        ),
        news: (
            "12월 낭독회 안내",
            "이번 달에는 새 소설 세 편을 낭독합니다. 첫 모임은 12월 5일 저녁 7시이며 입장은 무료입니다. 많은 참석 바랍니다.",
            "수신 거부",
        ),
    },
    Language {
        name: "Chinese",
        country: ("cn", "+0800"),
        names: ("王小明", "河畔书店"),
        meeting: (
            "星期四的会议",
            "鲍勃你好：\n\n上周会议的记录见下文。我们可以在星期四上午十点讨论新的时间表吗？我已经订好了小会议室。\n\n此致\n王小明",
        ),
        order: (
            "您的订单 48213 已发货",
            "感谢您的订购。我们今天已将您的书交给邮局，预计星期五送达。您可以在账户中查看配送状态。",
        ),
        news: (
            "十二月的朗读会",
            "本月我们将朗读三部新小说。第一场在十二月五日晚上七点，免费入场。期待您的光临。",
            "退订",
        ),
    },
    Language {
        name: "Russian",
        country: ("ru", "+0300"),
        names: ("Анна Лаврова", "Книги у реки"),
        meeting: (
            "Встреча в четверг",
            "Здравствуйте, Боб!\n\nНиже протокол встречи на прошлой неделе. Можем ли мы в четверг в десять обсудить новое \
             расписание? Я забронировала маленький зал.\n\nС уважением,\nАнна",
        ),
        order: (
            "Ваш заказ 48213 отправлен",
            "Спасибо за заказ. Сегодня мы передали ваши книги на почту, они должны прийти в пятницу. Состояние доставки можно \
             посмотреть в личном кабинете.",
        ),
        news: (
            "Наши чтения в декабре",
            "В этом месяце мы читаем из трёх новых романов. Первый вечер пятого декабря в семь часов, вход свободный. Будем рады \
             вас видеть.",
            "Отписаться",
        ),
    },
    Language {
        name: "Greek",
        country: ("gr", "+0200"),
        names: ("Ελένη Παππά", "Βιβλία στο ποτάμι"),
        meeting: (
            "Συνάντηση την Πέμπτη",
            "Καλημέρα Μπομπ,\n\nπαρακάτω είναι τα πρακτικά της συνάντησης της περασμένης εβδομάδας. Μπορούμε να μιλήσουμε για το νέο \
             πρόγραμμα την Πέμπτη στις δέκα; Έκλεισα τη μικρή αίθουσα.\n\nΜε εκτίμηση\nΕλένη",
        ),
        order: (
            "Η παραγγελία σας 48213 στάλθηκε",
            "Ευχαριστούμε για την παραγγελία σας. Παραδώσαμε σήμερα τα βιβλία σας στο ταχυδρομείο και θα φτάσουν την Παρασκευή. \
             Μπορείτε να δείτε την κατάσταση της αποστολής στον λογαριασμό σας.",
        ),
        news: (
            "Οι αναγνώσεις μας τον Δεκέμβριο",
            "Αυτόν τον μήνα διαβάζουμε από τρία νέα μυθιστορήματα. Η πρώτη βραδιά είναι στις πέντε Δεκεμβρίου στις επτά, η είσοδος \
             είναι ελεύθερη. Σας περιμένουμε.",
            "Διαγραφή",
        ),
    },
    Language {
        name: "Hebrew",
        country: ("il", "+0200"),
        names: ("נועה לוי", "ספרים על הנהר"),
        meeting: (
            "פגישה ביום חמישי",
            "שלום בוב,\n\nלהלן סיכום הפגישה מהשבוע שעבר. האם נוכל לדבר על לוח הזמנים החדש ביום חמישי בעשר? הזמנתי את החדר הקטן.\n\nבברכה\nנועה",
        ),
        order: (
            "הזמנה 48213 בדרך אליך",
            "תודה על ההזמנה. מסרנו היום את הספרים לדואר והם צפויים להגיע ביום שישי. אפשר לראות את מצב המשלוח בחשבון שלך.",
        ),
        news: (
            "ערבי הקריאה בדצמבר",
            "החודש נקרא משלושה רומנים חדשים. הערב הראשון בחמישה בדצמבר בשעה שבע, הכניסה חופשית. נשמח לראותכם.",
            "הסרה מרשימת התפוצה",
        ),
    },
    Language {
        name: "German",
        country: ("de", "+0100"),
        names: ("Jürgen Weiß", "Bücher am Fluss"),
        meeting: (
            "Besprechung am Donnerstag",
            "Hallo Bob,\n\nunten steht das Protokoll der Besprechung von letzter Woche. Können wir am Donnerstag um zehn über den \
             neuen Zeitplan sprechen? Ich habe das kleine Zimmer reserviert.\n\nViele Grüße\nJürgen",
        ),
        order: (
            "Ihre Bestellung 48213 ist unterwegs",
            "Vielen Dank für Ihre Bestellung. Wir haben Ihre Bücher heute der Post übergeben; sie sollten am Freitag ankommen. \
             Den Stand der Lieferung sehen Sie in Ihrem Kundenkonto.",
        ),
        news: (
            "Unsere Lesungen im Dezember",
            "Diesen Monat lesen wir aus drei neuen Romanen. Der erste Abend ist am fünften Dezember um sieben Uhr, der Eintritt ist \
             frei. Wir freuen uns auf Sie.",
            "Abmelden",
        ),
    },
    Language {
        name: "French",
        country: ("fr", "+0100"),
        names: ("Hélène Lefèvre", "Livres de la Rivière"),
        meeting: (
            "Réunion de jeudi",
            "Bonjour Bob,\n\nvous trouverez ci-dessous le compte rendu de la réunion de la semaine dernière. Pouvons-nous parler du \
             nouveau calendrier jeudi à dix heures ? J'ai réservé la petite salle.\n\nBien cordialement\nHélène",
        ),
        order: (
            "Votre commande 48213 est en route",
            "Merci pour votre commande. Nous avons remis vos livres à la poste aujourd'hui ; ils devraient arriver vendredi. Vous \
             pouvez suivre l'envoi dans votre espace.",
        ),
        news: (
            "Nos lectures de décembre",
            "Ce mois-ci, nous lisons des extraits de trois nouveaux romans. La première soirée a lieu le cinq décembre à sept heures, \
             l'entrée est libre. Au plaisir de vous voir.",
            "Se désabonner",
        ),
    },
    Language {
        name: "Spanish",
        country: ("es", "+0100"),
        names: ("Begoña Núñez", "Libros del Río"),
        meeting: (
            "Reunión del jueves",
            "Hola, Bob:\n\nabajo está el acta de la reunión de la semana pasada. ¿Podemos hablar del nuevo calendario el jueves a las \
             diez? He reservado la sala pequeña.\n\nUn saludo\nBegoña",
        ),
        order: (
            "Su pedido 48213 está en camino",
            "Gracias por su pedido. Hoy hemos entregado sus libros a correos; llegarán el viernes. Puede ver el estado del envío en \
             su área de cliente.",
        ),
        news: (
            "Nuestras lecturas de diciembre",
            "Este mes leemos fragmentos de tres novelas nuevas. La primera tarde es el cinco de diciembre a las siete, con entrada \
             libre. Les esperamos.",
            "Darse de baja",
        ),
    },
    Language {
        name: "Portuguese",
        country: ("br", "-0300"),
        names: ("João Conceição", "Livraria do Rio"),
        meeting: (
            "Reunião de quinta-feira",
            "Olá, Bob,\n\nsegue abaixo a ata da reunião da semana passada. Podemos falar sobre o novo cronograma na quinta-feira às \
             dez? Reservei a sala pequena.\n\nAbraços\nJoão",
        ),
        order: (
            "Seu pedido 48213 está a caminho",
            "Obrigado pelo seu pedido. Hoje entregamos seus livros aos correios; eles devem chegar na sexta-feira. Você pode ver a \
             situação da entrega na sua página.",
        ),
        news: (
            "Nossas leituras de dezembro",
            "Neste mês lemos trechos de três romances novos. A primeira noite é no dia cinco de dezembro às sete horas, com entrada \
             franca. Esperamos por você.",
            "Cancelar inscrição",
        ),
    },
    Language {
        name: "Turkish",
        country: ("tr", "+0300"),
        names: ("Ayşe Yılmaz", "Irmak Kitabevi"),
        meeting: (
            "Perşembe toplantısı",
            "Merhaba Bob,\n\ngeçen haftaki toplantının tutanağı aşağıda. Yeni takvimi perşembe günü saat onda konuşabilir miyiz? Küçük \
             odayı ayırttım.\n\nSelamlar\nAyşe",
        ),
        order: (
            "48213 numaralı siparişiniz yola çıktı",
            "Siparişiniz için teşekkür ederiz. Kitaplarınızı bugün postaya verdik, cuma günü elinizde olması bekleniyor. Teslimat \
             durumunu hesabınızda görebilirsiniz.",
        ),
        news: (
            "Aralık ayı okumalarımız",
            "Bu ay üç yeni romandan okuyoruz. İlk akşam beş aralıkta saat yedide, giriş ücretsiz. Sizi de bekleriz.",
            "Abonelikten çık",
        ),
    },
    Language {
        name: "Indonesian",
        country: ("id", "+0700"),
        names: ("Budi Santoso", "Toko Buku Sungai"),
        meeting: (
            "Rapat hari Kamis",
            "Halo Bob,\n\nberikut notulen rapat minggu lalu. Bisakah kita membicarakan jadwal baru pada hari Kamis pukul sepuluh? Saya \
             sudah memesan ruang kecil.\n\nSalam\nBudi",
        ),
        order: (
            "Pesanan Anda 48213 sedang dikirim",
            "Terima kasih atas pesanan Anda. Hari ini kami menyerahkan buku Anda ke kantor pos; diperkirakan tiba hari Jumat. Status \
             pengiriman dapat dilihat di akun Anda.",
        ),
        news: (
            "Acara membaca bulan Desember",
            "Bulan ini kami membacakan tiga novel baru. Malam pertama tanggal lima Desember pukul tujuh, masuk gratis. Kami menantikan \
             kedatangan Anda.",
            "Berhenti berlangganan",
        ),
    },
];

/// How the text is written down: as mail programs write UTF-8 that is mostly not ASCII, or as it
/// is.
#[derive(Clone, Copy, Debug)]
enum Encoding {
    Base64,
    EightBit,
}

impl Encoding {
    const ALL: [Encoding; 2] = [Encoding::Base64, Encoding::EightBit];

    fn name(self) -> &'static str {
        match self {
            Encoding::Base64 => "base64",
            Encoding::EightBit => "8bit",
        }
    }

    fn word(self, text: &str) -> String {
        match self {
            Encoding::Base64 if !text.is_ascii() => {
                let words =
                    text.as_bytes().chunks(45).map(|chunk| STANDARD.encode_to_string(chunk));
                words.map(|word| format!("=?UTF-8?B?{word}?=")).collect::<Vec<_>>().join("\n ")
            }
            _ => text.to_owned(),
        }
    }

    fn body(self, text: &str) -> String {
        match self {
            Encoding::EightBit => format!("{text}\n"),
            Encoding::Base64 => {
                let letters = STANDARD.encode_to_string(text.as_bytes());
                let lines = letters.as_bytes().chunks(76).map(String::from_utf8_lossy);
                lines.map(|line| format!("{line}\n")).collect()
            }
        }
    }

    fn part(self, kind: &str, text: &str) -> String {
        format!(
            "Content-Type: text/{kind}; charset=\"UTF-8\"\nContent-Transfer-Encoding: {}\n\n{}",
            self.name(),
            self.body(text)
        )
    }
}

impl Language {
    fn header(&self, encoding: Encoding, name: &str, local: &str, subject: &str) -> String {
        let (top, zone) = self.country;
        let (name, subject) = (encoding.word(name), encoding.word(subject));
        format!(
            "From: {name} <{local}@riverbooks.{top}>\nTo: Bob Baker <bob@home.example>\nSubject: {subject}\n\
             Date: Tue, 24 Nov 2026 09:12:44 {zone}\nMessage-ID: <20261124.91244.7@mail.riverbooks.{top}>\n\
             MIME-Version: 1.0\n"
        )
    }

    fn meeting(&self, encoding: Encoding) -> String {
        let header = self.header(encoding, self.names.0, "archer", self.meeting.0);
        header + &encoding.part("plain", self.meeting.1)
    }

    fn page(&self, text: &str, last: &str) -> String {
        let (top, _) = self.country;
        format!(
            "<html><head><title>{firm}</title></head><body><table width=\"600\"><tr><td>\
             <img src=\"https://www.riverbooks.{top}/logo.png\" alt=\"{firm}\" width=\"120\"></td></tr>\
             <tr><td><p>{text}</p><p><a href=\"https://www.riverbooks.{top}/k/48213\">www.riverbooks.{top}</a>\
             </p></td></tr><tr><td>{firm}<br><a href=\"https://www.riverbooks.{top}/settings\">{last}</a>\
             </td></tr></table></body></html>",
            firm = self.names.1
        )
    }

    fn alternative(&self, encoding: Encoding, head: &str, text: &str, last: &str) -> String {
        let plain = format!("{text}\n\nhttps://www.riverbooks.{}/k/48213\n", self.country.0);
        format!(
            "{head}Content-Type: multipart/alternative; boundary=\"=_b7c1\"\n\n--=_b7c1\n{}\n--=_b7c1\n{}\n--=_b7c1--\n",
            encoding.part("plain", &plain),
            encoding.part("html", &self.page(text, last))
        )
    }

    fn order(&self, encoding: Encoding) -> String {
        let head = self.header(encoding, self.names.1, "orders", self.order.0);
        self.alternative(encoding, &head, self.order.1, self.names.1)
    }

    fn news(&self, encoding: Encoding) -> String {
        let top = self.country.0;
        let head = self.header(encoding, self.names.1, "news", self.news.0);
        let leave = format!("List-Unsubscribe: <https://www.riverbooks.{top}/leave/7>\n");
        self.alternative(encoding, &(head + &leave), self.news.1, self.news.2)
    }

    /// What kind of mail each is, and the mail.
    fn mail(&self, encoding: Encoding) -> [(&'static str, String); 3] {
        [
            ("meeting", self.meeting(encoding)),
            ("order", self.order(encoding)),
            ("news", self.news(encoding)),
        ]
    }
}

fn judge(raw: &str, snapshot: &Snapshot) -> Verdict {
    let message = Message::parse(raw.as_bytes());
    scan(&message, &Envelope::default(), &Facts::default(), snapshot, &mut Scratch::default())
}

#[test]
fn good_mail_in_other_languages_is_good_as_english_mail_is() {
    let snapshot = Snapshot::build(&Settings::default()).expect("a snapshot");
    let (mut worse, mut table) = (Vec::new(), String::new());
    for language in LANGUAGES {
        for encoding in Encoding::ALL {
            for (kind, raw) in language.mail(encoding) {
                let verdict = judge(&raw, &snapshot);
                let line = format!(
                    "{:11} {kind:8} {:6} {:8} {:.4} {:5.2} {:?}\n",
                    language.name,
                    encoding.name(),
                    verdict.class.name(),
                    verdict.probability.unwrap_or_default(),
                    verdict.score,
                    verdict.hits.iter().map(|hit| &*hit.rule).collect::<Vec<_>>()
                );
                table += &line;
                if verdict.class > Class::Bulk {
                    worse.push(line);
                }
            }
        }
    }
    assert!(worse.is_empty(), "called worse than bulk:\n{}all:\n{table}", worse.concat());
}
