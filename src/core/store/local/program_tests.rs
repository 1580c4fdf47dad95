//! Values that the program steps itself.

use half::f16;

use super::tests::{bytes, sgd, spec};
use super::*;

/// Of two workers, with key 3, which the program knows.
fn model(form: (u32, bool, bool)) -> LocalModel {
    let mut model = LocalModel::new(&spec(form.0, form.1, form.2), 2, 1);
    model.step_by_program().unwrap();
    model.begin(3, Dtype::F32, &bytes(&[10.0_f32, 20.0])).unwrap();
    model.given();
    model
}

impl LocalModel {
    /// What the program is given.
    fn given(&mut self) -> Vec<f32> {
        let (_, value) = self.value(3).unwrap();
        value.chunks(4).map(|x| f32::from_ne_bytes(x.try_into().unwrap())).collect()
    }

    /// An iteration of the program, which changes its value by that.
    fn changes(&mut self, by: [f32; 2], act: (bool, bool)) -> Option<Vec<f32>> {
        let value: Vec<f32> = self.given().iter().zip(by).map(|(value, by)| value + by).collect();
        self.step(3, Dtype::F32, &bytes(&value)).unwrap();
        let delta = self.exchange(3, act.0, act.1).unwrap();
        delta.map(|delta| {
            delta.chunks(4).map(|x| f32::from_ne_bytes(x.try_into().unwrap())).collect()
        })
    }
}

#[test]
fn a_delta_is_what_the_program_changed_and_is_not_scaled() {
    let mut model = model((1, false, true));
    assert_eq!(model.changes([1.0, 0.0], (false, false)), None);
    assert_eq!(model.given(), [11.0, 20.0], "it goes on with its own value");
    assert_eq!(model.changes([1.0, -2.0], (false, true)), Some(vec![2.0, -2.0]));
    model.arrived(3, &bytes(&[100.0_f32, 200.0])).unwrap();
    model.exchange(3, true, false).unwrap();
    assert_eq!(model.given(), [100.0, 200.0]);
    assert_eq!(model.changes([0.5, 0.5], (false, true)), Some(vec![0.5, 0.5]));
}

#[test]
fn each_step_counts_once_in_every_form() {
    for (form, left) in [((1, false, false), [0.0, 0.0]), ((1, true, false), [0.0, 7.0])] {
        let mut model = model(form);
        assert_eq!(model.changes([1.0, 0.0], (false, true)), Some(vec![1.0, 0.0]));
        model.arrived(3, &bytes(&[0.0_f32, 0.0])).unwrap();
        assert_eq!(model.changes([0.0, 7.0], (true, true)), Some(vec![0.0, 7.0]));
        assert_eq!(model.given(), left, "published: nothing is kept");
        model.arrived(3, &bytes(&[1.0_f32, 1.0])).unwrap();
        assert_eq!(model.changes([2.0, 0.0], (true, true)), Some(vec![2.0, 0.0]));
    }
    let mut several = model((4, true, false));
    assert_eq!(several.changes([1.0, 0.0], (false, true)), Some(vec![1.0, 0.0]));
    several.arrived(3, &bytes(&[100.0_f32, 200.0])).unwrap();
    assert_eq!(several.changes([0.0, 3.0], (true, false)), None);
    assert_eq!(several.given(), [100.0, 203.0], "its own progress is kept");
    assert_eq!(several.changes([4.0, 0.0], (false, true)), Some(vec![4.0, 3.0]));
}

#[test]
fn a_step_counts_though_another_value_took_the_place_of_the_one_that_it_began_with() {
    let mut fresh = LocalModel::new(&spec(1, false, true), 2, 1);
    fresh.step_by_program().unwrap();
    fresh.begin(3, Dtype::F32, &bytes(&[1.0_f32, 1.0])).unwrap();
    let push =
        |model: &mut LocalModel, value: f32| model.step(3, Dtype::F32, &bytes(&[value, 1.0]));
    let refused = push(&mut fresh, 2.0).unwrap_err().to_string();
    assert!(refused.contains("key 3") && refused.contains("pull each key before"), "{refused}");
    assert_eq!(fresh.given(), [1.0, 1.0], "nothing has changed");
    push(&mut fresh, 2.0).unwrap();
    push(&mut fresh, 3.0).unwrap();
    let before = fresh.bytes();
    fresh.exchange(3, false, true).unwrap();
    fresh.arrived(3, &bytes(&[10.0_f32, 20.0])).unwrap();
    fresh.exchange(3, true, false).unwrap();
    assert_eq!(fresh.bytes() - before, 8, "what it was given is kept");
    // It has 3, and goes on from there.
    push(&mut fresh, 3.5).unwrap();
    push(&mut fresh, 4.0).unwrap();
    assert_eq!(fresh.given(), [11.0, 20.0]);
    assert_eq!(fresh.bytes(), before);
    fresh.step(3, Dtype::F32, &bytes(&[12.0_f32, 20.0])).unwrap();
    assert_eq!(fresh.exchange(3, false, true).unwrap().unwrap(), bytes(&[2.0_f32, 0.0]));
}

#[test]
fn where_all_align_what_was_pushed_before_goes_on_from_there() {
    let mut model = model((4, true, false));
    assert_eq!(model.changes([1.0, 0.0], (false, true)), Some(vec![1.0, 0.0]));
    assert_eq!(model.given(), [11.0, 20.0]);
    model.arrived(3, &bytes(&[100.0_f32, 200.0])).unwrap();
    model.exchange(3, true, false).unwrap();
    model.settle_all();
    // It was computed before.
    model.step(3, Dtype::F32, &bytes(&[11.5_f32, 20.0])).unwrap();
    assert_eq!(model.given(), [100.5, 200.0]);
}

#[test]
fn float16_loses_nothing_of_what_the_program_changed() {
    let mut model = LocalModel::new(&spec(4, true, false), 2, 1);
    model.step_by_program().unwrap();
    let half = |value: f32| bytes(&[f16::from_f32(value)]);
    let small = -1.0 / 4096.0;
    model.begin(0, Dtype::F16, &half(1.0)).unwrap();
    model.value(0).unwrap();
    // The delta has more than the 11 bits of a float16: the rest goes with the next one.
    model.step(0, Dtype::F16, &half(small)).unwrap();
    let sent = model.exchange(0, false, true).unwrap().unwrap();
    assert_eq!(sent, half(-1.0));
    model.arrived(0, &half(0.0)).unwrap();
    model.step(0, Dtype::F16, &half(small)).unwrap();
    assert_eq!(model.exchange(0, true, false).unwrap(), None);
    assert_eq!(model.value(0).unwrap(), (Dtype::F16, half(small).into()));
    model.step(0, Dtype::F16, &half(small)).unwrap();
    assert_eq!(model.exchange(0, false, true).unwrap().unwrap(), half(small));
}

#[test]
fn an_optimizer_and_a_program_that_steps_exclude_each_other() {
    let mut by_optimizer = LocalModel::new(&spec(1, false, true), 2, 1);
    by_optimizer.use_optimizer(sgd()).unwrap();
    let refused = by_optimizer.step_by_program().unwrap_err().to_string();
    assert!(refused.contains("SGD was set"), "{refused}");
    let mut by_program = model((1, false, true));
    let refused = by_program.use_optimizer(sgd()).unwrap_err().to_string();
    assert!(refused.contains("leave set_optimizer out"), "{refused}");
    by_program.step_by_program().unwrap();
    assert_eq!(by_program.changes([1.0, 1.0], (false, true)), Some(vec![1.0, 1.0]));
}

#[test]
fn what_does_not_fit_or_has_no_mean_is_refused_with_its_key() {
    let mut model = model((1, false, true));
    let refused = model.step(3, Dtype::F32, &[0; 4]).unwrap_err().to_string();
    assert!(refused.contains("key 3 has 8 bytes of float32, the value 4"), "{refused}");
    assert!(model.step(3, Dtype::F64, &[0; 8]).is_err());
    model.begin(4, Dtype::I32, &[0; 4]).unwrap();
    model.value(4).unwrap();
    let refused = model.step(4, Dtype::I32, &[0; 4]).unwrap_err().to_string();
    assert!(refused.contains("key 4 has elements of int32"), "{refused}");
    model.step(3, Dtype::F32, &bytes(&[f32::NAN, 0.0])).unwrap();
    let refused = model.exchange(3, false, true).unwrap_err().to_string();
    assert!(refused.contains("key 3") && refused.contains("not finite"), "{refused}");
}
