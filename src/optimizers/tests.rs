//! What holds without MXNet at hand; compat-tests/test_optimizers.py compares with it.

use super::*;
use crate::pickle::Object;

fn object(class: &str, attributes: &[(&str, Value)]) -> Value {
    let attributes = attributes.iter().map(|(name, value)| ((*name).into(), value.clone()));
    Value::Object(Box::new(Object { class: class.into(), attributes: attributes.collect() }))
}

/// An optimizer as MXNet 1.9.1 pickles it, with the attributes of its class.
fn optimizer(class: &str, own: &[(&str, Value)]) -> Value {
    let counts = Value::Dict(vec![(Value::Int(0), Value::Dict(vec![]))]);
    let mut attributes = vec![
        ("rescale_grad", Value::Float(1.0)),
        ("lr_scheduler", Value::None),
        ("lr", Value::Float(0.5)),
        ("wd", Value::Float(0.0)),
        ("lr_mult", Value::Dict(vec![])),
        ("wd_mult", Value::Dict(vec![])),
        ("begin_num_update", Value::Int(0)),
        ("num_update", Value::Int(0)),
        ("_all_index_update_counts", counts),
        ("_index_update_count", Value::Dict(vec![])),
        ("clip_gradient", Value::None),
        ("multi_precision", Value::Bool(false)),
        ("aggregate_num", Value::Int(4)),
        ("idx2name", Value::Dict(vec![])),
        ("sym_info", Value::Tuple(vec![])),
        ("allow_np_array", Value::Bool(false)),
    ];
    for (name, value) in own {
        attributes.retain(|(known, _)| known != name);
        attributes.push((name, value.clone()));
    }
    object(class, &attributes)
}

const SGD: &str = "mxnet.optimizer.optimizer.SGD";

fn sgd(own: &[(&str, Value)]) -> Optimizer {
    let mut all = vec![("momentum", Value::Float(0.5)), ("lazy_update", Value::Bool(true))];
    all.extend_from_slice(own);
    Optimizer::from_value(&optimizer(SGD, &all)).unwrap()
}

fn buffer(values: &[f32]) -> Buffer {
    Buffer::copy_of(bytemuck::cast_slice(values))
}

#[test]
fn momentum_moves_the_weights() {
    let (optimizer, mut weight, mut state) = (sgd(&[]), buffer(&[1.0, 2.0]), None);
    let gradient = buffer(&[1.0, -1.0]);
    for _ in 0..2 {
        let gradient = Gradient::Dense(&gradient);
        optimizer.update(3, Dtype::F32, &mut weight, &gradient, &mut state).unwrap();
    }
    // -0.5, then -0.5 * 0.5 - 0.5.
    assert_eq!(weight.elements::<f32>(), [1.0 - 0.5 - 0.75, 2.0 + 0.5 + 0.75]);
    let state = state.unwrap();
    assert_eq!((state.count(), state.bytes()), (2, 8));
    let tensors: Vec<_> = state.tensors().map(|(name, dtype, _)| (name, dtype)).collect();
    assert_eq!(tensors, [("momentum", Dtype::F32)]);
}

#[test]
fn multipliers_count_by_key_before_name() {
    let names = Value::Dict(vec![
        (Value::Int(0), Value::Text("a_weight".into())),
        (Value::Int(1), Value::Text("b_weight".into())),
    ]);
    let factors = Value::Dict(vec![
        (Value::Text("a_weight".into()), Value::Float(2.0)),
        (Value::Text("b_weight".into()), Value::Float(3.0)),
        (Value::Int(1), Value::Float(4.0)),
    ]);
    let optimizer = sgd(&[("idx2name", names), ("lr_mult", factors), ("momentum", Value::Int(0))]);
    for (key, factor) in [(0, 2.0), (1, 4.0), (2, 1.0)] {
        let (mut weight, gradient) = (buffer(&[0.0]), buffer(&[-1.0]));
        let gradient = Gradient::Dense(&gradient);
        optimizer.update(key, Dtype::F32, &mut weight, &gradient, &mut None).unwrap();
        assert_eq!(weight.elements::<f32>(), [0.5 * factor], "key {key}");
    }
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    let unknown = Optimizer::from_value(&object("own.Optimizer", &[])).unwrap_err().to_string();
    assert!(unknown.contains("own.Optimizer") && unknown.contains("RMSProp"), "{unknown}");
    let random = Optimizer::from_value(&optimizer("mxnet.optimizer.optimizer.SGLD", &[]));
    assert!(matches!(random, Err(OptimizerError::Unsupported { class: "SGLD", .. })));
    assert_eq!(Optimizer::from_value(&Value::None), Err(OptimizerError::NotAnObject));
    let odd = [("momentum", Value::Int(0)), ("warp", Value::Int(9))];
    let odd = Optimizer::from_value(&optimizer(SGD, &odd)).unwrap_err();
    assert!(matches!(odd, OptimizerError::UnknownAttribute { name, .. } if name == "warp"));
    let schedule = [
        ("momentum", Value::Int(0)),
        ("lr_scheduler", object("own.Scheduler", &[("base_lr", Value::Int(1))])),
    ];
    assert!(matches!(
        Optimizer::from_value(&optimizer(SGD, &schedule)),
        Err(OptimizerError::Unknown { class }) if class == "own.Scheduler"
    ));
}

fn senseless() -> [Value; 8] {
    [
        Value::None,
        Value::Text("x".into()),
        Value::List(vec![Value::None]),
        Value::Dict(vec![(Value::None, Value::None)]),
        Value::Int(i64::MIN),
        Value::Int(i64::MAX),
        Value::Float(f64::NAN),
        Value::Float(f64::NEG_INFINITY),
    ]
}

/// The objects that differ from a good one in one attribute.
fn spoilt(good: &Value) -> Vec<Value> {
    let Value::Object(good) = good else { return Vec::new() };
    let places =
        (0..good.attributes.len()).flat_map(|place| senseless().map(|value| (place, value)));
    let spoil = |(place, value): (usize, Value)| {
        let mut bad = good.clone();
        bad.attributes[place].1 = value;
        Value::Object(bad)
    };
    places.map(spoil).collect()
}

/// Updates with it if it is accepted: nothing may panic or take long.
fn try_it(value: &Value) -> bool {
    let Ok(optimizer) = Optimizer::from_value(value) else { return false };
    let (mut weight, gradient) = (buffer(&[1.0]), buffer(&[1.0]));
    let gradient = Gradient::Dense(&gradient);
    optimizer.update(0, Dtype::F32, &mut weight, &gradient, &mut None).unwrap();
    true
}

#[test]
fn senseless_attributes_do_no_harm() {
    let good =
        optimizer(SGD, &[("momentum", Value::Float(0.5)), ("lazy_update", Value::Bool(true))]);
    assert!(try_it(&good));
    let refused = spoilt(&good).iter().filter(|value| !try_it(value)).count();
    assert!(refused > 40, "{refused}");
}

#[test]
fn senseless_schedules_do_no_harm() {
    let common = [
        ("base_lr", Value::Float(0.1)),
        ("warmup_steps", Value::Int(2)),
        ("warmup_begin_lr", Value::Int(0)),
        ("warmup_final_lr", Value::Float(0.1)),
        ("warmup_mode", Value::Text("linear".into())),
    ];
    let factor = [("factor", Value::Float(0.5)), ("count", Value::Int(0))];
    let decay = [
        ("base_lr_orig", Value::Float(0.1)),
        ("final_lr", Value::Int(0)),
        ("max_update", Value::Int(9)),
        ("max_steps", Value::Int(7)),
    ];
    let step = [("step", Value::Int(3)), ("stop_factor_lr", Value::Float(1e-8))];
    let steps = [("step", Value::List(vec![Value::Int(3)])), ("cur_step_ind", Value::Int(0))];
    let power = [("power", Value::Int(2))];
    let kinds: [(&str, Vec<(&str, Value)>); 4] = [
        ("FactorScheduler", [&factor[..], &step].concat()),
        ("MultiFactorScheduler", [&factor[..], &steps].concat()),
        ("PolyScheduler", [&decay[..], &power].concat()),
        ("CosineScheduler", decay.to_vec()),
    ];
    for (kind, own) in kinds {
        let attributes = [&common[..], &own].concat();
        let schedule = object(&format!("mxnet.lr_scheduler.{kind}"), &attributes);
        let with = |schedule: &Value| {
            let own = [("momentum", Value::Int(0)), ("lr_scheduler", schedule.clone())];
            try_it(&optimizer(SGD, &own))
        };
        assert!(with(&schedule), "{kind}");
        let refused = spoilt(&schedule).iter().filter(|schedule| !with(schedule)).count();
        assert!(refused > 20, "{kind} {refused}");
    }
}

#[test]
fn a_refused_update_changes_nothing() {
    let optimizer = sgd(&[]);
    let (mut weight, short) = (buffer(&[1.0, 2.0]), buffer(&[1.0]));
    let mut state = Some(Box::new(optimizer.new_state(0, Dtype::F32, &weight).unwrap()));
    let before = (weight.clone(), state.clone());
    let rows = |rows, row_len| Gradient::RowSparse { rows, values: &short, row_len };
    for gradient in [
        Gradient::Dense(&short),
        rows(&[2], 1),
        rows(&[-1], 1),
        rows(&[0, 1], 1),
        rows(&[0], 2),
        rows(&[0], usize::MAX),
    ] {
        let result = optimizer.update(0, Dtype::F32, &mut weight, &gradient, &mut state);
        assert!(result.is_err(), "{gradient:?}");
    }
    assert!(
        optimizer.update(0, Dtype::I32, &mut weight, &Gradient::Dense(&short), &mut None).is_err()
    );
    assert_eq!((weight, state), before);
}

#[test]
fn a_state_of_another_optimizer_is_refused() {
    let (optimizer, weight) = (sgd(&[]), buffer(&[1.0, 2.0]));
    let restore = |tensors| optimizer.restore_state(0, Dtype::F32, &weight, tensors, &[], 7);
    let wrong = restore(vec![("mean".into(), buffer(&[0.0, 0.0]))]);
    assert!(matches!(wrong, Err(OptimizerError::State { .. })));
    let short = restore(vec![("momentum".into(), buffer(&[0.0]))]);
    assert!(matches!(short, Err(OptimizerError::Length { .. })));
    let state = restore(vec![("momentum".into(), buffer(&[3.0, 4.0]))]).unwrap();
    assert_eq!((state.count(), state.tensors[0].elements::<f32>()), (7, &[3.0_f32, 4.0][..]));
}

#[test]
fn rows_without_a_gradient_stay_with_a_lazy_update() {
    let (optimizer, mut weight, mut state) = (sgd(&[]), buffer(&[1.0; 6]), None);
    let values = buffer(&[1.0, 1.0]);
    let gradient = Gradient::RowSparse { rows: &[1], values: &values, row_len: 2 };
    optimizer.update(0, Dtype::F32, &mut weight, &gradient, &mut state).unwrap();
    assert_eq!(weight.elements::<f32>(), [1.0, 1.0, 0.5, 0.5, 1.0, 1.0]);
}

#[test]
fn test_adds_the_rows_of_a_row_sparse_gradient() {
    let own = [("rescale_grad", Value::Float(2.0))];
    let test = optimizer("mxnet.optimizer.optimizer.Test", &own);
    let test = Optimizer::from_value(&test).unwrap();
    let (mut weight, mut state) = (buffer(&[1.0; 6]), None);
    let values = buffer(&[1.0, -3.0]);
    let gradient = Gradient::RowSparse { rows: &[2], values: &values, row_len: 2 };
    test.update(0, Dtype::F32, &mut weight, &gradient, &mut state).unwrap();
    assert_eq!(weight.elements::<f32>(), [1.0, 1.0, 1.0, 1.0, 3.0, -5.0]);
}
