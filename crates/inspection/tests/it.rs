//! What packets carry, handed to judges that these tests are.

#[path = "../../../tests/common/capture.rs"]
#[expect(dead_code, reason = "not all tests compose all there is")]
mod capture;

mod it {
    mod limits;
}
