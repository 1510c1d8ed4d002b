//! Text in, text out: a file of a few lines and what Java would print.

use super::comparison::{compare, missing_classes};
use super::mapping::{Verdict, parse};
use super::page::{self, Names};

const FILE: &str = "\
# A comment.
[org.x.KStream]
filter(Predicate)   = KStream::filter, KStream::try_filter
filter(*Named)      ~ KStream::filter, KStream::named | behind it
foreach(*)          - no need

[org.x.Outer$Inner]
of(Outer.Kind)      ! later
";

const JAVA: &str = "\
KStream.filter(Predicate)
KStream.filter(Predicate,Named)
KStream.foreach(Action)
KStream.foreach(Action,Named)
Outer.Inner.of(Outer.Kind)
";

/// What is wrong, as one text.
fn mistakes(file: &str, java: &str) -> String {
    let classes = match parse(file) {
        Ok(classes) => classes,
        Err(mistakes) => return mistakes.join("\n"),
    };
    compare(&classes, java).err().unwrap_or_default().join("\n")
}

#[test]
fn each_method_is_in_the_row_of_the_first_line_that_fits() {
    let classes = parse(FILE).unwrap();
    let tables = compare(&classes, JAVA).unwrap();
    assert_eq!(
        page::tables(&tables, Names::Plain),
        "\n### KStream\n\n\
         | Java | ours |\n|---|---|\n\
         | `filter(Predicate)` | `KStream::filter`, `KStream::try_filter` |\n\
         | `filter(Predicate,Named)` | `KStream::filter`, `KStream::named`: behind it |\n\
         | `foreach(Action)`<br>`foreach(Action,Named)` | left out: no need |\n\
         \n### Outer.Inner\n\n\
         | Java | ours |\n|---|---|\n\
         | `of(Outer.Kind)` | not there yet: later |\n"
    );
    assert!(page::tables(&tables, Names::Links).contains("| [`KStream::filter`], [`KStream::try_"));
}

#[test]
fn methods_are_counted_overload_by_overload() {
    let classes = parse(FILE).unwrap();
    let tables = compare(&classes, JAVA).unwrap();
    assert_eq!(
        page::overview(&tables),
        "Of 5 public methods, overloads counted one by one, 1 have a method of ours, 1 an option or a type; 2 are left out, \
         1 are not there yet.\n\n\
         | Java | classes | methods | ours | by an option | left out | not yet |\n\
         |---|--:|--:|--:|--:|--:|--:|\n\
         | all | 2 | 5 | 1 | 1 | 2 | 1 |\n"
    );
    assert_eq!(
        page::reasons(&tables, Verdict::NotYet) + &page::reasons(&tables, Verdict::LeftOut),
        "- **later**: `Outer.Inner.of(Outer.Kind)`\n- **no need**: `KStream.foreach(…)`\n"
    );
}

#[test]
fn parts_have_their_counts_and_reasons_stand_once() {
    let file = "\
== Streams
[org.x.KStream]
filter(*)   = KStream::filter
foreach(*)  - no need
== Rest
[org.x.Outer$Inner] - no need
[org.x.Empty] ~ Record
";
    let classes = parse(file).unwrap();
    let tables = compare(&classes, JAVA).unwrap();
    let overview = page::overview(&tables);
    let (_, rows) = overview.split_once("|---|--:|--:|--:|--:|--:|--:|\n").unwrap();
    assert_eq!(rows, "| Streams | 1 | 4 | 2 |  | 2 |  |\n| Rest | 2 | 1 |  |  | 1 |  |\n");
    assert_eq!(
        page::reasons(&tables, Verdict::LeftOut),
        "- **no need**: `KStream.foreach(…)`, `Outer.Inner`\n"
    );
    let pages = page::tables(&tables, Names::Plain);
    let (streams, rest) = pages.split_once("\n## Rest\n").unwrap();
    assert!(streams.starts_with("\n## Streams\n\n### KStream\n"), "{streams}");
    assert_eq!(
        rest,
        "\n### Classes as a whole\n\n\
         | Java | methods | ours |\n|---|--:|---|\n\
         | `Outer.Inner` | 1 | left out: no need |\n\
         | `Empty` | 0 | `Record` |\n"
    );
}

#[test]
fn a_class_without_a_section_is_named() {
    let classes = parse(FILE).unwrap();
    let of_java = "org.x.KStream\norg.x.KTable\norg.x.Outer$Inner\n";
    assert_eq!(
        missing_classes(&classes, of_java),
        ["the class org.x.KTable of Java has no section"]
    );
}

#[test]
fn a_method_without_a_line_is_named() {
    let java = JAVA.replace("foreach(Action)", "forEach(Action)") + "Other.get()\n";
    assert_eq!(
        mistakes(FILE, &java),
        "KStream.forEach(Action) of Java has no line\nOther.get() of Java has no line"
    );
}

#[test]
fn a_line_without_a_method_is_named() {
    let java = JAVA.replace("KStream.filter(Predicate)\n", "");
    assert_eq!(
        mistakes(FILE, &java),
        "line 3: there is no method KStream.filter(Predicate) in Java that no line before it is about"
    );
    let file = FILE.replace("foreach(*) ", "filter(*)  - all of them\nforeach(*)");
    assert!(mistakes(&file, JAVA).starts_with("line 5: there is no method KStream.filter(*)"));
}

#[test]
fn a_line_of_another_form_is_named() {
    let form = "a line is `method(Types) = ours | note` with =, ~, - or !";
    assert_eq!(mistakes("[a.B]\nfilter = B::filter\n", ""), format!("line 2: {form}"));
    assert_eq!(mistakes("[a.B]\nfilter() ? B::filter\n", ""), format!("line 2: {form}"));
    assert_eq!(
        mistakes("[a.B]\nfilter() = B::filter or so\n", ""),
        "line 2: \"B::filter or so\" is no path of Rust"
    );
    assert_eq!(mistakes("filter() = B::filter\n", ""), "line 1: no [class] before it");
    assert_eq!(mistakes("[a.B]\n[a.B]\n", ""), "line 2: a.B is there twice");
}
